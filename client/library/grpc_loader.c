/* The transport of grpc:// and grpc+unix: addresses: client/grpc_transport.h, loaded when first asked for. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cairn.h"
#include "client/grpc_transport.h"
#include "client/library/clock.h"
#include "client/library/transport.h"
#include "proto/frame.h"

struct grpc_functions {
  cairn_grpc_abi_function* abi;
  cairn_grpc_connect_function* connect;
  cairn_grpc_others_function* others;
  cairn_grpc_send_function* send;
  cairn_grpc_receive_function* receive;
  cairn_grpc_free_function* free;
  cairn_grpc_close_function* close;
};

struct grpc_transport {
  struct lc_transport base;
  struct grpc_functions functions;
  struct cairn_grpc* handle;
};

static struct grpc_transport* self(struct lc_transport* transport) {
  return (struct grpc_transport*)transport;
}

static int grpc_send(struct lc_transport* transport, const uint8_t* message, size_t bytes, bool more, int64_t deadline,
                     struct lc_why* why) {
  (void)more; /* it gathers by itself */
  why->text[0] = '\0';
  return self(transport)->functions.send(self(transport)->handle, message, bytes, (uint32_t)lc_left_ms(deadline),
                                         why->text, sizeof why->text);
}

static int grpc_receive(struct lc_transport* transport, uint8_t** message, size_t* bytes, int* descriptor,
                        int64_t deadline, struct lc_why* why) {
  void* reply = NULL;
  why->text[0] = '\0';
  *descriptor = -1;
  const int code = self(transport)->functions.receive(self(transport)->handle, &reply, bytes,
                                                      (uint32_t)lc_left_ms(deadline), why->text, sizeof why->text);
  if (code == CAIRN_OK) *message = reply;
  return code;
}

static void grpc_free_message(struct lc_transport* transport, uint8_t* message) {
  self(transport)->functions.free(message);
}

static void grpc_close(struct lc_transport* transport) {
  self(transport)->functions.close(self(transport)->handle);
  free(transport);
}

/* gRPC's threads are not in the child: its handle stays behind. */
static void grpc_abandon(struct lc_transport* transport) {
  free(transport);
}

static const struct lc_transport_ops kGrpcOps = {
    .shares_memory = false,
    .send = grpc_send,
    .receive = grpc_receive,
    .free_message = grpc_free_message,
    .close = grpc_close,
    .abandon = grpc_abandon,
};

/* Beside the object that this code is in, else wherever the loader looks. Never closed: gRPC cannot be unloaded. */
static void* load_library(struct lc_why* why) {
  char beside[PATH_MAX] = "";
  char first[256] = "";
  Dl_info here;
  if (dladdr((void*)&kGrpcOps, &here) != 0 && here.dli_fname != NULL) {
    const char* slash = strrchr(here.dli_fname, '/');
    const int folder = slash != NULL ? (int)(slash - here.dli_fname) : 0;
    snprintf(beside, sizeof beside, "%.*s%s%s", folder, here.dli_fname, slash != NULL ? "/" : "", CAIRN_GRPC_LIBRARY);
  }
  if (strchr(beside, '/') != NULL && access(beside, F_OK) == 0) {
    void* library = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) return library;
    snprintf(first, sizeof first, "%s", dlerror());
  }
  void* library = dlopen(CAIRN_GRPC_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) return library;
  /* One that is there and cannot be loaded, for want of gRPC perhaps, says more than one that was not found. */
  lc_because(why, CAIRN_UNSUPPORTED, "a grpc address needs %s, beside libcairn.so or in LD_LIBRARY_PATH: %s",
             CAIRN_GRPC_LIBRARY, first[0] != '\0' ? first : dlerror());
  return NULL;
}

/* POSIX lets the address of a function travel as a void pointer, ISO C does not convert it: hence the memcpy. */
static int find_function(void* library, const char* name, void* place, struct lc_why* why) {
  void* found = dlsym(library, name);
  if (found == NULL) return lc_because(why, CAIRN_UNSUPPORTED, "%s lacks %s", CAIRN_GRPC_LIBRARY, name);
  memcpy(place, &found, sizeof found);
  return CAIRN_OK;
}

static int load_functions(struct grpc_functions* functions, struct lc_why* why) {
  void* library = load_library(why);
  if (library == NULL) return CAIRN_UNSUPPORTED;
  const struct {
    const char* name;
    void* place;
  } wanted[] = {
      {"cairn_grpc_connect", &functions->connect}, {"cairn_grpc_others", &functions->others},
      {"cairn_grpc_send", &functions->send},       {"cairn_grpc_receive", &functions->receive},
      {"cairn_grpc_free", &functions->free},       {"cairn_grpc_close", &functions->close},
  };
  int code = find_function(library, "cairn_grpc_abi", &functions->abi, why);
  if (code != CAIRN_OK) return code;
  if (functions->abi() != CAIRN_GRPC_ABI) { /* it may lack some of the others */
    return lc_because(why, CAIRN_UNSUPPORTED, "%s is of another version: %u, this libcairn needs %u",
                      CAIRN_GRPC_LIBRARY, functions->abi(), CAIRN_GRPC_ABI);
  }
  for (size_t i = 0; code == CAIRN_OK && i < sizeof wanted / sizeof wanted[0]; ++i) {
    code = find_function(library, wanted[i].name, wanted[i].place, why);
  }
  return code;
}

int lc_grpc_connect(const char* address, uint64_t session, int64_t deadline, struct lc_transport** transport,
                    struct lc_why* why) {
  struct grpc_transport* t = calloc(1, sizeof *t);
  if (t == NULL) return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory for a connection");
  t->base.ops = &kGrpcOps;
  int code = load_functions(&t->functions, why);
  if (code == CAIRN_OK) {
    why->text[0] = '\0';
    code =
        t->functions.connect(address, session, (uint32_t)lc_left_ms(deadline), &t->handle, why->text, sizeof why->text);
  }
  if (code != CAIRN_OK) {
    free(t);
    return code;
  }
  t->base.others = t->functions.others(t->handle, &t->base.unreached);
  *transport = &t->base;
  return CAIRN_OK;
}
