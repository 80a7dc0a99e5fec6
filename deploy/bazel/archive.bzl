"""A static library that shows the names of its interface only, as the shared one does."""

def _archive_impl(ctx):
    inputs = ctx.attr.dep[CcInfo].linking_context.linker_inputs.to_list()
    objects = []
    flags = []
    for linker_input in inputs:
        for library in linker_input.libraries:
            objects += library.pic_objects
        flags += linker_input.user_link_flags
    work = ctx.outputs.out.path + ".work"
    ctx.actions.run_shell(
        inputs = objects + [ctx.file.names],
        outputs = [ctx.outputs.out],
        # One object: then what the parts need of each other can become local.
        command = """
          set -e
          work=$1 out=$2 names=$3; shift 3
          rm -rf "$work" "$out"; mkdir -p "$work"
          sed -n 's/^ *\\(cairn_[a-z0-9_]*\\);$/\\1/p' "$names" >"$work/names"
          gcc -r -nostdlib -o "$work/cairn.o" "$@"
          objcopy --keep-global-symbols="$work/names" "$work/cairn.o"
          ar crsD "$out" "$work/cairn.o"
          rm -r "$work"
        """,
        arguments = [work, ctx.outputs.out.path, ctx.file.names.path] +
                    [object.path for object in objects] +
                    [flag for flag in flags if flag.startswith("-l:")],
        mnemonic = "Archive",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([ctx.outputs.out]))]

archive = rule(
    implementation = _archive_impl,
    attrs = {
        "dep": attr.label(mandatory = True, providers = [CcInfo]),
        "names": attr.label(mandatory = True, allow_single_file = True, doc = "linker script with the names to show"),
        "out": attr.output(mandatory = True),
    },
)
