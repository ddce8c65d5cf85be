// SPDX-License-Identifier: Apache-2.0
#include "nccl_work.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>
#include <utility>

namespace ostraka::cuda_double {

namespace {

/// What ranks compare before data moves.
struct Header {
  std::int64_t comm, sequence, count;
  std::int32_t kind, dtype, op, root;
  std::int64_t in_window = -1, in_offset = -1, out_window = -1, out_offset = -1; ///< where NCCL relies on them
  bool operator==(const Header&) const = default;
};

std::string text(const Header& header) {
  constexpr const char* names[] = {"allgather", "reduce-scatter", "allreduce", "broadcast", "reduce", "send", "recv"};
  return std::string(names[header.kind]) + " of " + std::to_string(header.count) + " elements of type " +
         std::to_string(header.dtype) + ", reduction " + std::to_string(header.op) + ", root " +
         std::to_string(header.root) + ", number " + std::to_string(header.sequence) + ", windows " +
         std::to_string(header.in_window) + "+" + std::to_string(header.in_offset) + " and " +
         std::to_string(header.out_window) + "+" + std::to_string(header.out_offset);
}

template <class T>
void reduce_into(std::byte* result, const std::byte* other, std::int64_t count, ncclRedOp_t op) {
  for (std::int64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, result + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    std::memcpy(&b, other + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    const T value = op == ncclSum    ? static_cast<T>(a + b)
                    : op == ncclProd ? static_cast<T>(a * b)
                    : op == ncclMax  ? (b > a ? b : a) // NaN is lost, as in NCCL
                                     : (b < a ? b : a);
    std::memcpy(result + i * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

void reduce_into(std::byte* result, const std::byte* other, const Request& request, std::int64_t count) {
  switch (request.dtype) {
  case ncclFloat64:
    return reduce_into<double>(result, other, count, request.op);
  case ncclFloat32:
    return reduce_into<float>(result, other, count, request.op);
  case ncclInt64:
    return reduce_into<std::int64_t>(result, other, count, request.op);
  case ncclInt32:
    return reduce_into<std::int32_t>(result, other, count, request.op);
  case ncclUint8:
    return reduce_into<std::uint8_t>(result, other, count, request.op);
  default:
    Engine::get().misuse("a reduction of a 16-bit type, which NCCL rounds at every hop");
  }
}

using Bytes = std::vector<std::byte>;

MPI_Request send(const void* data, std::size_t bytes, int to, int tag) {
  MPI_Request request;
  MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, MPI_COMM_WORLD, &request);
  return request;
}

MPI_Request receive(void* data, std::size_t bytes, int from, int tag) {
  MPI_Request request;
  MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, MPI_COMM_WORLD, &request);
  return request;
}

bool are_complete(std::vector<MPI_Request>& requests) {
  int done = 0;
  MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
  return done != 0;
}

} // namespace

std::int64_t width_of(ncclDataType_t dtype) {
  switch (dtype) {
  case ncclFloat64:
  case ncclInt64:
  case ncclUint64:
    return 8;
  case ncclFloat32:
  case ncclInt32:
  case ncclUint32:
    return 4;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  default:
    return 1;
  }
}

void meet(Comm& comm, std::vector<std::int64_t> own, std::function<void()> then) {
  comm.meeting = std::make_shared<Meeting>();
  Meeting& meeting = *comm.meeting;
  meeting.own = std::move(own);
  meeting.then = std::move(then);
  const std::size_t numbers = meeting.own.size(), bytes = numbers * sizeof(std::int64_t);
  meeting.all.resize(comm.world.size() * numbers);
  for (std::size_t k = 0; k < comm.world.size(); ++k) {
    meeting.requests.push_back(receive(meeting.all.data() + k * numbers, bytes, comm.world[k], comm.tag + 2));
    meeting.requests.push_back(send(meeting.own.data(), bytes, comm.world[k], comm.tag + 2));
  }
}

bool advance_meeting(Comm& comm) {
  if (comm.meeting == nullptr)
    return true;
  if (!are_complete(comm.meeting->requests))
    return false;
  comm.meeting->then();
  comm.meeting = nullptr;
  return true;
}

std::pair<std::int64_t, std::int64_t> window_of(const Comm& comm, const std::byte* data, std::size_t bytes) {
  for (const Window& window : comm.windows)
    if (data >= window.data && data + bytes <= window.data + window.bytes)
      return {window.number, data - window.data};
  return {-1, -1};
}

// All tell the root where they are, and it tells all.
bool advance_start(Comm& comm) {
  int world_rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  if (comm.pair.empty()) {
    comm.pair = {comm.rank, world_rank};
    comm.world.assign(static_cast<std::size_t>(comm.size), -1);
    comm.requests.push_back(send(comm.pair.data(), 2 * sizeof(int), comm.root, comm.tag));
    if (world_rank == comm.root) {
      comm.pairs.resize(2 * static_cast<std::size_t>(comm.size));
      for (int k = 0; k < comm.size; ++k)
        comm.requests.push_back(receive(comm.pairs.data() + 2 * k, 2 * sizeof(int), MPI_ANY_SOURCE, comm.tag));
    }
  }
  if (!are_complete(comm.requests))
    return false;
  if (comm.has_table)
    return true;
  comm.has_table = true;
  comm.requests.clear();
  const std::size_t bytes = comm.world.size() * sizeof(int);
  if (world_rank == comm.root) {
    for (int k = 0; k < comm.size; ++k)
      comm.world[static_cast<std::size_t>(comm.pairs[2 * static_cast<std::size_t>(k)])] =
          comm.pairs[2 * static_cast<std::size_t>(k) + 1];
    for (const int other : comm.world)
      if (other != world_rank)
        comm.requests.push_back(send(comm.world.data(), bytes, other, comm.tag + 1));
  } else {
    comm.requests.push_back(receive(comm.world.data(), bytes, comm.root, comm.tag + 1));
  }
  return false;
}

class Launch::Part {
public:
  Part(CommPtr comm, const Request& request) : comm_(std::move(comm)), request_(request) {}
  virtual ~Part() = default;
  virtual bool step() = 0;

protected:
  Header header() const {
    return {comm_->id,      0,           request_.count, static_cast<std::int32_t>(request_.kind),
            request_.dtype, request_.op, request_.peer};
  }
  std::size_t bytes(std::int64_t count) const { return static_cast<std::size_t>(count * width_of(request_.dtype)); }
  void fail(const std::string& what) {
    Engine::get().misuse(comm_->name + ": " + what);
    comm_->error = ncclInvalidUsage;
  }

  CommPtr comm_;
  Request request_;
};

class Launch::Collective final : public Launch::Part {
public:
  using Part::Part;

  bool step() override {
    if (stage_ == 0) {
      own_ = header();
      own_.sequence = comm_->sequence++;
      place(own_);
      headers_.resize(static_cast<std::size_t>(comm_->size));
      exchange(
          [&](int) {
            return std::pair<const void*, std::size_t>{&own_, sizeof own_};
          },
          [&](int peer) {
            return std::pair<void*, std::size_t>{&headers_[at(peer)], sizeof own_};
          });
      stage_ = 1;
    }
    if (!are_complete(requests_))
      return false;
    if (stage_ == 1) {
      for (int peer = 0; peer < comm_->size; ++peer)
        if (peer != comm_->rank && headers_[at(peer)] != own_) {
          fail("rank " + std::to_string(comm_->rank) + " has " + text(own_) + ", rank " + std::to_string(peer) +
               " has " + text(headers_[at(peer)]));
          return true;
        }
      start_data();
      stage_ = 2;
      return false;
    }
    finish();
    return true;
  }

private:
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  bool is_root(int rank) const { return rank == request_.peer; }

  template <class Out, class In>
  void exchange(Out&& out, In&& in) {
    requests_.clear();
    for (int peer = 0; peer < comm_->size; ++peer) {
      if (peer == comm_->rank)
        continue;
      const auto [data, size] = out(peer);
      if (size > 0)
        requests_.push_back(send(data, size, comm_->world[at(peer)], comm_->tag));
      const auto [room, expected] = in(peer);
      if (expected > 0)
        requests_.push_back(receive(room, expected, comm_->world[at(peer)], comm_->tag));
    }
  }

  // What lies in windows on one rank does on all: at one place, where peers read it or write there.
  void place(Header& header) const {
    if (request_.kind > Kind::allreduce || request_.count == 0)
      return;
    std::tie(header.in_window, header.in_offset) = window_of(*comm_, request_.in, in_bytes());
    std::tie(header.out_window, header.out_offset) = window_of(*comm_, request_.out, out_bytes());
    Engine::get().symmetric_operations += header.in_window >= 0 && header.out_window >= 0;
    if (request_.kind == Kind::allgather)
      header.in_offset = -1;
    if (request_.kind == Kind::reduce_scatter)
      header.out_offset = -1;
  }

  /// Elements of the input of rank `from` that rank `to` needs: how many, and from which one on.
  std::pair<std::int64_t, std::int64_t> needs(int from, int to) const {
    switch (request_.kind) {
    case Kind::reduce_scatter:
      return {request_.count, to * request_.count};
    case Kind::broadcast:
      return {is_root(from) ? request_.count : 0, 0};
    case Kind::reduce:
      return {is_root(to) ? request_.count : 0, 0};
    default:
      return {request_.count, 0};
    }
  }

  Bytes part_for(int peer) const {
    const auto [count, first] = needs(comm_->rank, peer);
    if (count == 0)
      return {};
    const std::byte* begin = request_.in + bytes(first);
    return {begin, begin + bytes(count)};
  }

  void start_data() {
    Engine::get().expect_mapped(request_.in, in_bytes(), comm_->name + ": " + text(own_) + ", when it runs, input");
    Engine::get().expect_mapped(request_.out, out_bytes(), comm_->name + ": " + text(own_) + ", when it runs, output");
    const Engine::Access access;
    outgoing_.resize(at(comm_->size));
    incoming_.resize(at(comm_->size));
    for (int peer = 0; peer < comm_->size; ++peer) {
      outgoing_[at(peer)] = part_for(peer);
      incoming_[at(peer)].resize(bytes(needs(peer, comm_->rank).first));
    }
    incoming_[at(comm_->rank)] = outgoing_[at(comm_->rank)];
    exchange(
        [&](int peer) {
          const Bytes& data = outgoing_[at(peer)];
          return std::pair<const void*, std::size_t>{data.data(), data.size()};
        },
        [&](int peer) {
          Bytes& room = incoming_[at(peer)];
          return std::pair<void*, std::size_t>{room.data(), room.size()};
        });
  }

  std::size_t in_bytes() const {
    const std::int64_t pieces = request_.kind == Kind::reduce_scatter ? comm_->size : 1;
    return request_.kind == Kind::broadcast && !is_root(comm_->rank) ? 0 : bytes(pieces * request_.count);
  }
  std::size_t out_bytes() const {
    const std::int64_t pieces = request_.kind == Kind::allgather ? comm_->size : 1;
    return request_.kind == Kind::reduce && !is_root(comm_->rank) ? 0 : bytes(pieces * request_.count);
  }

  void finish() {
    const Engine::Access access;
    const bool reduces =
        request_.kind == Kind::reduce_scatter || request_.kind == Kind::allreduce || request_.kind == Kind::reduce;
    if (request_.kind == Kind::allgather)
      for (int peer = 0; peer < comm_->size; ++peer)
        write(incoming_[at(peer)], peer * request_.count);
    if (request_.kind == Kind::broadcast)
      write(incoming_[at(request_.peer)], 0);
    if (!reduces || out_bytes() == 0)
      return;
    Bytes result = incoming_[0]; // in rank order
    for (int peer = 1; peer < comm_->size; ++peer)
      reduce_into(result.data(), incoming_[at(peer)].data(), request_, request_.count);
    write(result, 0);
  }

  void write(const Bytes& data, std::int64_t first) const {
    if (!data.empty())
      std::memcpy(request_.out + bytes(first), data.data(), data.size());
  }

  int stage_ = 0;
  Header own_{};
  std::vector<Header> headers_;
  std::vector<Bytes> outgoing_, incoming_;
  std::vector<MPI_Request> requests_;
};

class Launch::Message final : public Launch::Part {
public:
  using Part::Part;

  bool step() override {
    const int peer = comm_->world[static_cast<std::size_t>(request_.peer)];
    const std::size_t size = bytes(request_.count);
    if (requests_.empty()) {
      data_.resize(sizeof(Header) + size);
      if (request_.kind == Kind::send) {
        const Header own = header();
        std::memcpy(data_.data(), &own, sizeof own);
        const Engine::Access access;
        std::memcpy(data_.data() + sizeof own, request_.in, size);
        requests_.push_back(send(data_.data(), data_.size(), peer, comm_->tag + 2));
      } else {
        requests_.push_back(receive(data_.data(), data_.size(), peer, comm_->tag + 2));
      }
    }
    if (!are_complete(requests_))
      return false;
    if (request_.kind == Kind::recv) {
      Header found{};
      std::memcpy(&found, data_.data(), sizeof found);
      if (found.comm != comm_->id || found.count != request_.count || found.dtype != request_.dtype)
        fail("expected " + std::to_string(request_.count) + " elements from rank " + std::to_string(request_.peer) +
             ", found " + text(found));
      else {
        const Engine::Access access;
        std::memcpy(request_.out, data_.data() + sizeof found, size);
      }
    }
    return true;
  }

private:
  Bytes data_;
  std::vector<MPI_Request> requests_;
};

Launch::Launch(CommPtr comm, std::vector<Request> requests) : comm_(std::move(comm)), number_(comm_->issued++) {
  for (const Request& request : requests)
    if (request.kind == Kind::send || request.kind == Kind::recv)
      messages_.push_back(std::make_shared<Message>(comm_, request));
    else
      collectives_.push_back(std::make_shared<Collective>(comm_, request));
}

namespace {
bool fails_next = false;
}

void fail_next_operation() { fails_next = true; }

bool Launch::step() {
  if (number_ == comm_->run && std::exchange(fails_next, false))
    comm_->error = ncclRemoteError;
  if (comm_->is_ended || comm_->error != ncclSuccess)
    return true;
  if (number_ != comm_->run)
    return false;
  while (next_ < collectives_.size()) {
    if (!collectives_[next_]->step())
      return false;
    ++next_;
  }
  std::erase_if(messages_, [](const auto& message) { return message->step(); });
  if (!messages_.empty())
    return false;
  ++comm_->run;
  return true;
}

} // namespace ostraka::cuda_double
