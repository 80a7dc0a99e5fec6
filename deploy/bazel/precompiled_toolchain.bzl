"""Bazel's own C++ toolchain, with headers that each source begins with (.bazelrc): parsed beforehand, or empty.

They are parsed when the toolchain is set up, with the flags of .bazelrc. GCC compares: a compilation with others gets
the text. For the sanitizers, whose flags are others, and for clang they are empty.

What GCC has parsed is no input that Bazel knows: it differs from run to run, and says what the text says, which Bazel
does know. In a sandbox, where it is not there, the text is found. After an upgrade of the distribution's libraries it is
old, as all that was compiled is: `bazel clean --expunge`.
"""

_FILES = [
    "cc_wrapper.sh",
    "cc_toolchain_config.bzl",
    "builtin_include_directory_paths",
    "armeabi_cc_toolchain_config.bzl",
]
_MODULES = "module.modulemap"
_HEADERS = ["common_headers.h", "test_headers.h"]
_TEXT = "extra_tools"  # Bazel's BUILD makes each file of this folder a part of the compiler
_PARSED = "parsed"
_CXX_FLAGS = 'cxx_flags = ["-std=c++0x"'
_FLAGS = [  # those that GCC compares; -O1 and -O2 are as good as each other
    "-std=c++20",
    "-O2",
    "-g1",
    "-fPIC",
    "-U_FORTIFY_SOURCE",
    "-fstack-protector",
    "-fno-omit-frame-pointer",
]

# All at once: nothing else can be compiled before.
_PARSE = """
flags=$1 compilers= failed=0
shift
for header; do
  g++ $flags -x c++-header "$header" -o "../%s/$header.gch" &
  compilers="$compilers $!"
done
for compiler in $compilers; do
  wait "$compiler" || failed=1
done
exit $failed
""" % _PARSED

def _parse(repository_ctx, headers):
    repository_ctx.report_progress("parsing " + " and ".join(headers))
    result = repository_ctx.execute(
        ["sh", "-c", _PARSE, "parse", " ".join(_FLAGS)] + headers,
        working_directory = _TEXT,
        timeout = 600,
    )
    if result.return_code != 0:
        fail("%s cannot be parsed beforehand: %s" % (" or ".join(headers), result.stderr))

def _precompiled_toolchain_impl(repository_ctx):
    files = {name: repository_ctx.path(Label("@local_config_cc//:" + name)) for name in _FILES}
    headers = {name: repository_ctx.read(Label("//deploy/bazel:" + name)) for name in _HEADERS}
    build = repository_ctx.read(Label("@local_config_cc//:BUILD"))
    if _MODULES in build:  # clang's
        files[_MODULES] = repository_ctx.path(Label("@local_config_cc//:" + _MODULES))
    if _CXX_FLAGS not in build:
        fail("Bazel's toolchain is not as expected: it has no " + _CXX_FLAGS)
    for name, path in files.items():
        repository_ctx.symlink(path, name)
    for name, text in headers.items():
        repository_ctx.file("%s/%s" % (_TEXT, name), text if repository_ctx.attr.parsed else "")
    repository_ctx.file(_PARSED + "/README", "What GCC has parsed.\n")
    if repository_ctx.attr.parsed:
        _parse(repository_ctx, _HEADERS)
    folders = ['"-iquote", "external/%s/%s"' % (repository_ctx.name, folder) for folder in (_PARSED, _TEXT)]
    repository_ctx.file("BUILD", build.replace(_CXX_FLAGS, ", ".join([_CXX_FLAGS] + folders)))

precompiled_toolchain = repository_rule(
    implementation = _precompiled_toolchain_impl,
    attrs = {"parsed": attr.bool(mandatory = True)},
)
