// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <algorithm>

namespace ostraka::comm::impl {

namespace {

// Completing a request takes its error to MPI_COMM_WORLD, whose handler usually ends the program, instead of to its own
// communicator: Open MPI 4.1 for nonblocking collectives, MPICH 4.0 where several requests are completed together.
class WorldErrorsReturn {
public:
  WorldErrorsReturn() {
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &former_);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  }
  ~WorldErrorsReturn() {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, former_);
    MPI_Errhandler_free(&former_);
  }
  WorldErrorsReturn(const WorldErrorsReturn&) = delete;
  WorldErrorsReturn& operator=(const WorldErrorsReturn&) = delete;

private:
  MPI_Errhandler former_ = MPI_ERRHANDLER_NULL;
};

} // namespace

bool MpiCollective::is_complete(MPI_Request& request) const {
  const WorldErrorsReturn scope;
  int flag = 0;
  check(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
  return flag != 0;
}

void Messages::check(int code) const {
  if (code != MPI_SUCCESS)
    check_mpi(code, operation_.text());
}

void Messages::receive(int peer, std::int64_t elements, void* data, int count, MPI_Datatype type) {
  messages_.push_back({peer, elements});
  requests_.push_back(MPI_REQUEST_NULL);
  check(MPI_Irecv(data, count, type, peer, static_cast<int>(tag_), group_->comm, &requests_.back()));
}

void Messages::send(int peer, const void* data, int count, MPI_Datatype type) {
  messages_.push_back({peer, -1});
  requests_.push_back(MPI_REQUEST_NULL);
  check(MPI_Isend(data, count, type, peer, static_cast<int>(tag_), group_->comm, &requests_.back()));
}

template <class Part>
void Messages::for_parts(std::int64_t elements, Part&& part) const {
  for (std::int64_t done = 0; done < elements;) {
    const std::int64_t count = std::min(elements - done, group_->settings.count_limit);
    part(done * size_of(dtype_), static_cast<int>(count));
    done += count;
  }
}

void Messages::receive(int peer, std::byte* data, std::int64_t elements) {
  for_parts(elements,
            [&](std::int64_t first, int count) { receive(peer, count, data + first, count, mpi_type(dtype_)); });
}

void Messages::send(int peer, const std::byte* data, std::int64_t elements) {
  for_parts(elements, [&](std::int64_t first, int count) { send(peer, data + first, count, mpi_type(dtype_)); });
}

bool Messages::are_complete() {
  if (!test_all())
    return false;
  check_lengths();
  requests_.clear();
  messages_.clear();
  return true;
}

bool Messages::test_all() {
  const WorldErrorsReturn scope;
  int flag = 0;
  statuses_.resize(requests_.size());
  const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, statuses_.data());
  if (code == MPI_ERR_IN_STATUS)
    for (const MPI_Status& status : statuses_)
      check(status.MPI_ERROR == MPI_ERR_PENDING ? MPI_SUCCESS : status.MPI_ERROR);
  check(code);
  return flag != 0;
}

void Messages::check_lengths() const {
  for (std::size_t k = 0; k < messages_.size(); ++k) {
    const auto [peer, expected] = messages_[k];
    if (expected < 0)
      continue;
    MPI_Count received = 0;
    check(MPI_Get_elements_x(&statuses_[k], mpi_type(dtype_), &received));
    if (received != expected)
      fail(Status::RANKS_DISAGREE, operation_.text(), ": expected ", expected, " elements from rank ", peer, ", found ",
           received);
  }
}

} // namespace ostraka::comm::impl
