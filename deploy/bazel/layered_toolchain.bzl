"""Bazel's own C++ toolchain for --config=clang (.bazelrc), made fit for layering_check."""

_FILES = ["cc_wrapper.sh", "module.modulemap", "builtin_include_directory_paths", "armeabi_cc_toolchain_config.bzl"]
_HAS_MAPS = """feature(name = "module_maps", enabled = True),"""

# A target's module map names those of its dependencies, these name theirs, and clang tells Bazel that it has read them
# all. Bazel counts all but the first as undeclared inclusions. With this feature a map names no others: Bazel gives
# those of the direct dependencies on the command line, and no more of them are needed.
_NO_OTHERS = """feature(name = "module_map_without_extern_module", enabled = True),"""

def _layered_toolchain_impl(repository_ctx):
    files = {name: repository_ctx.path(Label("@local_config_cc//:" + name)) for name in _FILES}
    build = repository_ctx.read(Label("@local_config_cc//:BUILD"))
    config = repository_ctx.read(Label("@local_config_cc//:cc_toolchain_config.bzl"))
    if _HAS_MAPS not in config:
        fail("Bazel's toolchain is not as expected: it has no " + _HAS_MAPS)
    for name, path in files.items():
        repository_ctx.symlink(path, name)
    repository_ctx.file("BUILD", build)
    repository_ctx.file("cc_toolchain_config.bzl", config.replace(_HAS_MAPS, _HAS_MAPS + "\n        " + _NO_OTHERS))

layered_toolchain = repository_rule(implementation = _layered_toolchain_impl)
