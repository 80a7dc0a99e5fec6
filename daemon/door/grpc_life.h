// gRPC in this process: where its log goes, and that it stays. Thread-safe.
#ifndef CAIRN_DAEMON_DOOR_GRPC_LIFE_H_
#define CAIRN_DAEMON_DOOR_GRPC_LIFE_H_

namespace cairn {

// Before the first use of gRPC; again: nothing.
void KeepGrpc();

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_GRPC_LIFE_H_
