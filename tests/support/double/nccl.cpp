// SPDX-License-Identifier: Apache-2.0
// The entry points of NCCL: arguments are checked when a call is made.
#include "nccl_work.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace ostraka::cuda_double;

struct ncclComm {
  CommPtr state;
};

struct ncclWindow_vidmem {
  CommPtr comm;
  Window window;
};

namespace {

struct Id {
  int root;
  int number;
};

struct Queued {
  CommPtr comm;
  Request request;
  Stream* stream;
};

int depth = 0;
int launches = 0;
std::vector<Queued>& group() {
  static auto& calls = *new std::vector<Queued>;
  return calls;
}

Engine& engine() { return Engine::get(); }

bool is_in_progress(const Comm& comm) { return !comm.has_table || comm.polls_left > 0 || comm.meeting != nullptr; }

int made_ids = 0;
constexpr int own_tags = 1 << 14, tags_each = 3, ids_kept = 1 << 10; // communicators of a root that live at a time

void name_comm(Comm& comm, int root, int number) {
  comm.id = (static_cast<std::int64_t>(root) << 32) + number;
  comm.root = root;
  comm.tag = own_tags + tags_each * (root * ids_kept + number % ids_kept);
}

// What ncclMemAlloc gave out, and the windows on it.
std::map<std::byte*, std::size_t>& allocations() {
  static auto& all = *new std::map<std::byte*, std::size_t>;
  return all;
}
std::vector<ncclWindow_t>& open_windows() {
  static auto& all = *new std::vector<ncclWindow_t>;
  return all;
}

void end_windows(const CommPtr& comm) {
  engine().windows -= static_cast<std::int64_t>(
      std::erase_if(open_windows(), [&](ncclWindow_t window) { return window->comm == comm; }));
}

// The ranks of one color in the order of their keys; the first one's number names the communicator.
void finish_split(const CommPtr& parent, const CommPtr& child, int color, ncclComm_t* place) {
  const std::vector<std::int64_t>& all = parent->meeting->all; // color, key, number
  std::vector<std::pair<std::int64_t, int>> members;           // key, rank in the parent
  for (int k = 0; k < parent->size; ++k)
    if (all[static_cast<std::size_t>(3 * k)] == color)
      members.emplace_back(all[static_cast<std::size_t>(3 * k + 1)], k);
  std::sort(members.begin(), members.end());
  for (const auto& [key, k] : members) {
    if (k == parent->rank)
      child->rank = static_cast<int>(child->world.size());
    child->world.push_back(parent->world[static_cast<std::size_t>(k)]);
  }
  child->size = static_cast<int>(child->world.size());
  name_comm(*child, child->world.front(),
            static_cast<int>(all[static_cast<std::size_t>(3 * members.front().second + 2)]));
  child->has_table = true;
  child->polls_left = static_cast<int>(engine().draw(3));
  *place = new ncclComm{child};
}

ncclResult_t refuse(const Comm& comm, const std::string& text) {
  engine().misuse(comm.name + ": " + text);
  return ncclInvalidUsage;
}

bool overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// In place is what NCCL calls so, for each operation another address.
bool is_well_placed(const Comm& comm, const Request& request) {
  const auto piece = static_cast<std::size_t>(request.count * width_of(request.dtype));
  const auto all = piece * static_cast<std::size_t>(comm.size);
  const std::size_t own = piece * static_cast<std::size_t>(comm.rank);
  switch (request.kind) {
  case Kind::allgather:
    return !overlap(request.in, piece, request.out, all) || request.in == request.out + own;
  case Kind::reduce_scatter:
    return !overlap(request.in, all, request.out, piece) || request.out == request.in + own;
  case Kind::send:
  case Kind::recv:
    return true;
  default:
    return request.out == nullptr || !overlap(request.in, piece, request.out, piece) || request.in == request.out;
  }
}

// One launch for all calls since the outermost ncclGroupStart.
ncclResult_t end_group() {
  std::vector<Queued> calls = std::exchange(group(), {});
  if (calls.empty())
    return ncclSuccess;
  const CommPtr comm = calls.front().comm;
  Stream* const stream = calls.front().stream;
  std::vector<Request> requests;
  for (const Queued& call : calls) {
    if (call.comm != comm || call.stream != stream)
      return refuse(*comm, "a group of several communicators or streams");
    requests.push_back(call.request);
  }
  ++launches;
  const auto launch = std::make_shared<Launch>(comm, std::move(requests));
  engine().push(stream, {"an operation of NCCL", [launch] { return launch->step(); }});
  comm->polls_left = static_cast<int>(engine().draw(3));
  stream->is_closed = [comm, number = comm->issued] { // as long as this is the last call
    const bool is_taken = comm->polls_left == 0 || comm->issued != number || comm->is_finalized;
    return !is_taken ? comm->name + " has not taken its last call (ncclInProgress)" : std::string();
  };
  return comm->polls_left > 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t enqueue(const char* name, ncclComm_t handle, cudaStream_t stream, const Request& request) {
  const CommPtr comm = handle->state;
  if (is_in_progress(*comm))
    return refuse(*comm, std::string(name) + " while the communicator is in progress");
  if (comm->is_ended || comm->is_finalized)
    return refuse(*comm, std::string(name) + " on a communicator that has ended");
  if (!is_well_placed(*comm, request))
    return refuse(*comm, std::string(name) + ": input and output overlap, but not as NCCL wants it");
  for (const void* data : {static_cast<const void*>(request.in), static_cast<const void*>(request.out)})
    if (data != nullptr && request.count > 0)
      engine().expect_mapped(data, static_cast<std::size_t>(request.count * width_of(request.dtype)),
                             comm->name + ": " + name);
  auto* const fake = reinterpret_cast<Stream*>(stream);
  engine().calls.push_back({name, comm->name, fake->number, request.count, request.dtype, launches});
  group().push_back({comm, request, fake});
  return depth > 0 ? ncclSuccess : end_group();
}

const std::byte* bytes(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes(void* data) { return static_cast<std::byte*>(data); }
std::int64_t number(std::size_t count) { return static_cast<std::int64_t>(count); }

} // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclSuccess ? "no error" : "an error of the double";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetVersion(int* version) {
  *version = static_cast<int>(setting("OSTRAKA_DOUBLE_NCCL", NCCL_VERSION_CODE));
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Id own{engine().rank(), made_ids++};
  std::memcpy(id, &own, sizeof own);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  Id found{};
  std::memcpy(&found, &id, sizeof found);
  auto comm = std::make_shared<Comm>();
  name_comm(*comm, found.root, found.number);
  comm->name = config->commName;
  comm->rank = rank;
  comm->size = size;
  comm->shares = config->splitShare == 1;
  engine().starts.push_back({comm->name, "", false});
  *handle = new ncclComm{comm};
  if (config->blocking != 0)
    return refuse(*comm, "a communicator that blocks");
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  Comm& comm = *handle->state;
  *state = comm.error;
  if (comm.error != ncclSuccess)
    return ncclSuccess;
  if (!comm.has_table || !comm.requests.empty()) {
    if (!advance_start(comm))
      *state = ncclInProgress;
    else
      comm.requests.clear();
    return ncclSuccess;
  }
  if (!advance_meeting(comm) || (comm.polls_left > 0 && --comm.polls_left > 0))
    *state = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Comm& comm = *handle->state;
  if (comm.run != comm.issued)
    return refuse(comm, "ncclCommFinalize with operations in flight");
  if (!comm.windows.empty() || is_in_progress(comm))
    return refuse(comm, "ncclCommFinalize with windows, or while it is in progress");
  comm.is_finalized = true;
  comm.polls_left = static_cast<int>(engine().draw(3));
  return comm.polls_left > 0 ? ncclInProgress : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (!handle->state->is_finalized || handle->state->polls_left > 0)
    return refuse(*handle->state, "ncclCommDestroy before ncclCommFinalize is over");
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  handle->state->is_ended = true;
  handle->state->polls_left = 0;
  end_windows(handle->state);
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* place, ncclConfig_t* config) {
  const CommPtr parent = handle->state;
  if (is_in_progress(*parent) || parent->run != parent->issued)
    return refuse(*parent, "ncclCommSplit while the communicator is in progress or has operations in flight");
  auto child = std::make_shared<Comm>();
  child->name = config->commName;
  child->shares = config->splitShare == 1;
  engine().starts.push_back({child->name, parent->name, parent->shares});
  *place = nullptr; // until the parent is idle again
  meet(*parent, {color, key, made_ids++}, [parent, child, color, place] { finish_split(parent, child, color, place); });
  return config->blocking == 0 ? ncclInProgress : refuse(*child, "a communicator that blocks");
}

ncclResult_t ncclMemAlloc(void** data, std::size_t bytes) {
  constexpr std::size_t page = std::size_t{1} << 16;
  const std::size_t size = (bytes + page - 1) / page * page;
  std::byte* const made = bytes < std::size_t{1} << 32 ? engine().reserve(size) : nullptr;
  if (made == nullptr)
    return ncclUnhandledCudaError;
  engine().map(made, size);
  allocations()[made] = size;
  *data = made;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* data) {
  const auto found = allocations().find(static_cast<std::byte*>(data));
  if (found == allocations().end()) {
    engine().misuse("ncclMemFree of memory that ncclMemAlloc did not give");
    return ncclInvalidArgument;
  }
  for (const ncclWindow_t window : open_windows())
    if (window->window.data == found->first)
      engine().misuse(window->comm->name + ": ncclMemFree of memory with a window");
  engine().unmap(found->first, found->second);
  engine().unreserve(found->first);
  allocations().erase(found);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* data, std::size_t size, ncclWindow_t* place, int flags) {
  const CommPtr comm = handle->state;
  if (is_in_progress(*comm))
    return refuse(*comm, "ncclCommWindowRegister while the communicator is in progress");
  auto* const begin = static_cast<std::byte*>(data);
  const auto found = allocations().find(begin);
  if (found == allocations().end() || size > found->second || flags != NCCL_WIN_COLL_SYMMETRIC)
    return refuse(*comm, "ncclCommWindowRegister of memory that ncclMemAlloc did not give, or not like this");
  if (window_of(*comm, begin, size).first >= 0)
    return refuse(*comm, "ncclCommWindowRegister of memory that has a window");
  *place = nullptr; // until the communicator is idle again
  meet(*comm, {static_cast<std::int64_t>(size)}, [comm, begin, size, place] {
    for (const std::int64_t other : comm->meeting->all)
      if (other != static_cast<std::int64_t>(size))
        engine().misuse(comm->name + ": windows of different sizes");
    if (setting("OSTRAKA_DOUBLE_NO_WINDOW", 0) != 0)
      return;
    comm->windows.push_back({begin, size, comm->window_number++});
    open_windows().push_back(new ncclWindow_vidmem{comm, comm->windows.back()});
    ++engine().windows;
    *place = open_windows().back();
  });
  return ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  Comm& comm = *handle->state;
  const auto found = std::find(open_windows().begin(), open_windows().end(), window);
  if (found == open_windows().end() || window->comm != handle->state)
    return refuse(comm, "ncclCommWindowDeregister of a window that is not there");
  std::erase_if(comm.windows, [&](const Window& one) { return one.number == window->window.number; });
  open_windows().erase(found);
  --engine().windows;
  delete window;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return --depth == 0 ? end_group() : ncclSuccess; }

ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t dtype, ncclComm_t comm,
                           cudaStream_t stream) {
  return enqueue("ncclAllGather", comm, stream,
                 {Kind::allgather, bytes(in), bytes(out), number(count), dtype, ncclSum, 0});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduceScatter", comm, stream,
                 {Kind::reduce_scatter, bytes(in), bytes(out), number(count), dtype, op, 0});
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclAllReduce", comm, stream, {Kind::allreduce, bytes(in), bytes(out), number(count), dtype, op, 0});
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclBroadcast", comm, stream,
                 {Kind::broadcast, bytes(in), bytes(out), number(count), dtype, ncclSum, root});
}

ncclResult_t ncclReduce(const void* in, void* out, std::size_t count, ncclDataType_t dtype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return enqueue("ncclReduce", comm, stream, {Kind::reduce, bytes(in), bytes(out), number(count), dtype, op, root});
}

ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclSend", comm, stream, {Kind::send, bytes(in), nullptr, number(count), dtype, ncclSum, peer});
}

ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return enqueue("ncclRecv", comm, stream, {Kind::recv, nullptr, bytes(out), number(count), dtype, ncclSum, peer});
}

} // extern "C"
