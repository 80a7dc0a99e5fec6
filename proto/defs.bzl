"""Messages and services: generated code from .proto files with the distribution's compilers."""

def proto_cc(name, srcs, deps = [], grpc = False, visibility = None):
    """A cc_library of C++ messages (and service stubs) for `srcs`, included as "proto/<file>.pb.h"."""
    bases = [src[:-len(".proto")] for src in srcs]
    hdrs = [base + ".pb.h" for base in bases]
    ccs = [base + ".pb.cc" for base in bases]
    flags = ""
    if grpc:
        hdrs += [base + ".grpc.pb.h" for base in bases]
        ccs += [base + ".grpc.pb.cc" for base in bases]
        flags = "--grpc_out=$(GENDIR) --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin "
    native.genrule(
        name = name + "_gen",
        srcs = srcs + ["//proto:schemas"],
        outs = hdrs + ccs,
        cmd = "protoc -I. --cpp_out=$(GENDIR) " + flags + " ".join(["$(location %s)" % src for src in srcs]),
    )
    native.cc_library(
        name = name,
        srcs = ccs,
        hdrs = hdrs,
        copts = ["-Wno-unused-parameter"],
        visibility = visibility,
        deps = deps + ["@system//:grpc" if grpc else "@system//:protobuf"],
    )

def proto_c(name, srcs, visibility = None):
    """A cc_library of protobuf-c messages for `srcs`, for code that may need libc only."""
    bases = [src[:-len(".proto")] for src in srcs]
    hdrs = [base + ".pb-c.h" for base in bases]
    cs = [base + ".pb-c.c" for base in bases]
    native.genrule(
        name = name + "_gen",
        srcs = srcs,
        outs = hdrs + cs,
        cmd = "protoc-c -I. --c_out=$(GENDIR) " + " ".join(["$(location %s)" % src for src in srcs]),
    )
    native.cc_library(
        name = name,
        srcs = cs,
        hdrs = hdrs,
        copts = ["-fvisibility=hidden"],
        visibility = visibility,
        deps = ["@system//:protobuf_c"],
    )
