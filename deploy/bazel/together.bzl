"""Programs whose sources are compiled several at a time.

Most of a compilation's time goes to headers, and to templates that its neighbours instantiate, too. So the programs are
linked of parts, each of which includes up to ten sources of a folder. The libraries stay as they are: tests are linked
of them, layers.py and includes.py judge them.

A name in an anonymous namespace must differ from those of other sources that are compiled with it, and of the headers
that these include. If it does not, GCC says so ("redefinition", "ambiguous") and names both files: give it a name that
says more, or put what both need into a header. Of functions that take other types GCC says nothing: there, take care
that no call could mean either. A new source moves those behind it, so the two may be files
that nobody has touched. `bazel build //deploy/bazel:parts` tells without linking, `//deploy/bazel:client.cli` of one
folder.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

_SOURCES_MAX = 10  # of a part: more save little, and the last part would keep one core waiting for another

_COPTS = ["-Wno-mismatched-new-delete"]  # of coroutines; libraries with other options are compiled alone

# GCC takes what is included for headers, where a type must not have members of a type that other sources cannot name.
_WARNINGS = ["-Wno-subobject-linkage"]

_Libraries = provider(doc = "What a target is made of.", fields = {"all": "depset of structs, a library each"})
_Part = provider(doc = "What was compiled of a folder.", fields = {
    "labels": "of the libraries that are in it",
    "archives": "what they were compiled to",
    "needs": "depset of linker inputs: the libraries, and what they depend on",
})
_Parts = provider(doc = "What was compiled.", fields = {"all": "list of _Part"})

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

def _libraries_of(ctx):
    found = depset(transitive = [program[_Libraries].all for program in ctx.attr.programs]).to_list()
    mains = [program.label for program in ctx.attr.programs]
    libraries = [library for library in found if _is_in(library.label.package, ctx.attr.folder)]
    for folder in ctx.attr.folders_in_it:
        libraries = [library for library in libraries if not _is_in(library.label.package, folder)]
    return [library for library in libraries if library.label not in mains]

def _archive_of(library):
    return library.pic_static_library or library.static_library

def _part_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = toolchain)
    libraries = _libraries_of(ctx)
    sources = {file.path: file for library in libraries for file in library.sources}
    sources = [sources[path] for path in sorted(sources)]
    _, outputs = cc_common.compile(
        name = ctx.label.name,
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        srcs = _write_sources(ctx, sources),
        compilation_contexts = [cc_common.create_compilation_context(headers = depset(sources))] +
                               [library.context for library in libraries],
        user_compile_flags = _COPTS + _WARNINGS,
    )
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = ctx.label.name,
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = toolchain,
        compilation_outputs = outputs,
        disallow_dynamic_library = True,
    )
    archives = [_archive_of(library) for linked in linking.linker_inputs.to_list() for library in linked.libraries]
    return [
        DefaultInfo(files = depset(archives)),
        _Part(
            labels = [library.label for library in libraries],
            archives = archives,
            needs = depset(transitive = [library.needs for library in libraries]),
        ),
    ]

_part = rule(
    implementation = _part_impl,
    attrs = {
        "programs": attr.label_list(providers = [CcInfo], aspects = [_libraries]),
        "folder": attr.string(),
        "folders_in_it": attr.string_list(doc = "that are parts of their own"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _parts_impl(ctx):
    return [
        DefaultInfo(files = depset(transitive = [part[DefaultInfo].files for part in ctx.attr.parts])),
        _Parts(all = [part[_Part] for part in ctx.attr.parts]),
    ]

_parts = rule(
    implementation = _parts_impl,
    attrs = {"parts": attr.label_list(providers = [_Part])},
)

def parts(name, programs, folders, visibility):
    """What `programs` are linked of: the libraries in `folders`, and in the folders in these.

    A library is in the part of the longest folder that it lies in.
    """
    for folder in folders:
        _part(
            name = folder.replace("/", "."),
            folder = folder,
            folders_in_it = [other for other in folders if other.startswith(folder + "/")],
            programs = programs,
        )
    _parts(
        name = name,
        parts = [folder.replace("/", ".") for folder in folders],
        visibility = visibility,
    )

# The parts that have libraries of a program. A part may have sources that the program does not use: what these need is
# there, too, and may be in further parts.
def _parts_for(linker_inputs, parts):
    owners = {linked.owner: True for linked in linker_inputs}
    chosen = {}
    for _ in parts:
        for i, part in enumerate(parts):
            if i not in chosen and [label for label in part.labels if label in owners]:
                chosen[i] = part
                owners.update({linked.owner: True for linked in part.needs.to_list()})
    return chosen.values()

# What a program is linked of: its libraries, but of those in the parts, these. The parts need libraries that are
# compiled alone, and these the parts: the linker gets them as one group.
def _linked_impl(ctx):
    program = ctx.attr.main[CcInfo].linking_context.linker_inputs
    parts = _parts_for(program.to_list(), ctx.attr.parts[_Parts].all)
    compiled = {label: True for part in parts for label in part.labels}
    group, others = [], []
    for linked in depset(transitive = [program] + [part.needs for part in parts]).to_list():
        alone = [] if linked.owner in compiled else linked.libraries
        group += [_archive_of(library) for library in alone if _archive_of(library) and not library.alwayslink]
        others.append(cc_common.create_linker_input(
            owner = linked.owner,
            libraries = depset([library for library in alone if not _archive_of(library) or library.alwayslink]),
            user_link_flags = depset(linked.user_link_flags),
            additional_inputs = depset(linked.additional_inputs),
        ))
    for part in parts:
        group += part.archives
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
