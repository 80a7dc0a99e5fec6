"""Programs whose sources are compiled several at a time.

Most of a compilation's time goes to headers, and to templates that its neighbours instantiate, too. So the programs are
linked of parts, each of which includes up to ten sources of a folder. The libraries stay as they are: tests are linked
of them, layers.py and includes.py judge them. A name in an anonymous namespace must differ from those of other sources
of the part; if it does not, GCC says so ("redefinition", "ambiguous"): give it a name that says more, or put what both
need into a header.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_SOURCES_MAX = 10  # of a part: more save little, and the last part would keep one core waiting for another

_COPTS = ["-Wno-mismatched-new-delete"]  # of coroutines; libraries with other options are compiled alone

# GCC takes what is included for headers, where a type must not have members of a type that other sources cannot name.
_WARNINGS = ["-Wno-subobject-linkage"]

_Libraries = provider(doc = "What a target is made of.", fields = {"all": "depset of structs, a library each"})
_Part = provider(doc = "What was compiled of a folder.", fields = {
    "labels": "of the libraries that are in it",
    "outputs": "objects",
    "needs": "depset of linker inputs: the libraries, and what they depend on",
})
_Parts = provider(doc = "What was compiled.", fields = {
    "labels": "of the libraries that are in it, as a dictionary",
    "linker_inputs": "depset",
    "needs": "depset of linker inputs: the libraries, and what they depend on",
})

def _libraries_impl(target, ctx):
    own = []
    rule = ctx.rule
    if rule.kind == "cc_library" and not rule.attr.local_defines:
        sources = [file for file in rule.files.srcs if file.extension == "cc"]
        alone = [file for file in rule.files.srcs if file.extension not in ("cc", "h")]
        alone += [option for option in rule.attr.copts if option not in _COPTS]
        if sources and not alone:
            own = [struct(
                label = target.label,
                sources = tuple(sources),
                context = target[CcInfo].compilation_context,
                needs = target[CcInfo].linking_context.linker_inputs,
            )]
    inherited = [dep[_Libraries].all for dep in getattr(rule.attr, "deps", []) if _Libraries in dep]
    return [_Libraries(all = depset(own, transitive = inherited))]

_libraries = aspect(implementation = _libraries_impl, attr_aspects = ["deps"])

def _is_in(package, folder):
    return package == folder or package.startswith(folder + "/")

def _write_sources(ctx, sources):
    count = (len(sources) + _SOURCES_MAX - 1) // _SOURCES_MAX
    written = []
    for i in range(count):
        some = sources[i * len(sources) // count:(i + 1) * len(sources) // count]
        file = ctx.actions.declare_file("%s.%d.cc" % (ctx.label.name, i + 1))
        ctx.actions.write(file, "".join(["#include \"%s\"\n" % source.short_path for source in some]))
        written.append(file)
    return written

def _part_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    found = depset(transitive = [program[_Libraries].all for program in ctx.attr.programs]).to_list()
    libraries = [library for library in found if _is_in(library.label.package, ctx.attr.folder)]
    sources = {file.path: file for library in libraries for file in library.sources}
    sources = [sources[path] for path in sorted(sources)]
    _, outputs = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain),
        cc_toolchain = toolchain,
        srcs = _write_sources(ctx, sources),
        compilation_contexts = [cc_common.create_compilation_context(headers = depset(sources))] +
                               [library.context for library in libraries],
        user_compile_flags = _COPTS + _WARNINGS,
    )
    return [_Part(
        labels = [library.label for library in libraries],
        outputs = outputs,
        needs = depset(transitive = [library.needs for library in libraries]),
    )]

_TOOLCHAIN = {"_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain")}

_part = rule(
    implementation = _part_impl,
    attrs = dict(
        programs = attr.label_list(providers = [CcInfo], aspects = [_libraries]),
        folder = attr.string(),
        **_TOOLCHAIN
    ),
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _parts_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    all = [part[_Part] for part in ctx.attr.parts]
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        feature_configuration = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain),
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.merge_compilation_outputs(
            compilation_outputs = [part.outputs for part in all],
        ),
        disallow_dynamic_library = True,
    )
    return [_Parts(
        labels = {label: True for part in all for label in part.labels},
        linker_inputs = linking.linker_inputs,
        needs = depset(transitive = [part.needs for part in all]),
    )]

_parts = rule(
    implementation = _parts_impl,
    attrs = dict(
        parts = attr.label_list(providers = [_Part]),
        **_TOOLCHAIN
    ),
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def parts(name, programs, folders, visibility):
    """What `programs` are linked of: the libraries in `folders`, and in the folders in these."""
    for folder in folders:
        _part(
            name = folder.replace("/", "."),
            folder = folder,
            programs = programs,
        )
    _parts(
        name = name,
        parts = [folder.replace("/", ".") for folder in folders],
        visibility = visibility,
    )

# What a program is linked of: its libraries, but of those in the parts, these.
def _archive_of(library):
    return library.pic_static_library or library.static_library

# The parts need libraries that are compiled alone, and these the parts: the linker gets them as one group. A part may
# have sources that this program does not use; what they need is there, too.
def _linked_impl(ctx):
    compiled = ctx.attr.parts[_Parts]
    group, others = [], []
    for linked in depset(transitive = [ctx.attr.main[CcInfo].linking_context.linker_inputs, compiled.needs]).to_list():
        alone = [] if linked.owner in compiled.labels else linked.libraries
        group += [_archive_of(library) for library in alone if _archive_of(library) and not library.alwayslink]
        others.append(cc_common.create_linker_input(
            owner = linked.owner,
            libraries = depset([library for library in alone if not _archive_of(library) or library.alwayslink]),
            user_link_flags = depset(linked.user_link_flags),
            additional_inputs = depset(linked.additional_inputs),
        ))
    for linked in compiled.linker_inputs.to_list():
        group += [_archive_of(library) for library in linked.libraries]
    ours = cc_common.create_linker_input(
        owner = ctx.label,
        user_link_flags = depset(
            ["-Wl,--start-group"] + [archive.path for archive in group] + ["-Wl,--end-group"],
        ),
        additional_inputs = depset(group),
    )
    return [CcInfo(linking_context = cc_common.create_linking_context(
        linker_inputs = depset([ours] + others, order = "topological"),
    ))]

_linked = rule(
    implementation = _linked_impl,
    attrs = {
        "main": attr.label(providers = [CcInfo]),
        "parts": attr.label(providers = [_Parts]),
    },
)

def program(name, srcs, deps, parts, visibility):
    """As cc_binary, but linked of `parts`, which names `<name>_main` among its programs."""
    native.cc_library(
        name = name + "_main",
        srcs = srcs,
        visibility = ["//deploy/bazel:__pkg__"],
        deps = deps,
    )
    _linked(
        name = name + "_linked",
        main = name + "_main",
        parts = parts,
    )
    native.cc_binary(
        name = name,
        visibility = visibility,
        deps = [name + "_linked"],
    )
