// SPDX-License-Identifier: Apache-2.0
// What operations of NCCL share.
#pragma once

#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/nccl/impl/kernels.hpp>
#include <ostraka/comm/nccl/impl/registered.hpp>
#include <ostraka/memory/arena.hpp>
#include <ostraka/memory/storage.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::comm::nccl {

/// One communicator of NCCL.
struct Line {
  ncclComm_t comm = nullptr; ///< null once aborted
  int rank = 0;
  int size = 1;
  std::string name;
  std::shared_ptr<Communicator> host;
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<memory::Storage> scratch; ///< of all operations, one after the other
  runtime::Event last;                      ///< behind the last operation
  void* last_stream = nullptr;
  bool shares = false;         ///< its resources, with those that are split from it
  std::vector<Window> windows; ///< in the order in which all ranks have registered them

  /// Memory of at least so many bytes, for operations that wait for `last`.
  const std::shared_ptr<memory::Storage>& take_scratch(std::int64_t bytes);
  /// Whether NCCL has taken everything that it was asked for; throws COMMUNICATION where that, or an earlier operation,
  /// has failed.
  bool is_idle() const;
  /// Throws COMMUNICATION with NCCL's text unless `code` says success or that it goes on.
  void check(ncclResult_t code, const char* operation) const;
};
using LinePtr = std::shared_ptr<Line>;

/// One operation: kernels before it, calls of NCCL, kernels behind it.
class Part {
public:
  explicit Part(LinePtr line) : line_(std::move(line)) {}
  virtual ~Part() = default;

  virtual std::int64_t scratch_bytes() const { return 0; }
  virtual void before(const runtime::Execution& execution, std::byte* scratch) {
    static_cast<void>(execution);
    static_cast<void>(scratch);
  }
  virtual void issue(cudaStream_t stream, std::byte* scratch) = 0;
  virtual void after(const runtime::Execution& execution, std::byte* scratch) {
    static_cast<void>(execution);
    static_cast<void>(scratch);
  }

protected:
  int rank() const { return line_->rank; }
  int size() const { return line_->size; }
  ncclComm_t comm() const { return line_->comm; }
  void check(ncclResult_t code, const char* operation) const { line_->check(code, operation); }

private:
  LinePtr line_;
};

/// Parts that start in one launch.
class Launch final : public Collective {
public:
  Launch(LinePtr line, std::vector<std::unique_ptr<Part>> parts);

  bool is_stream_ordered() const override { return true; }
  void start() override;
  /// Kernels behind the operations are queued once NCCL has queued those.
  bool test() override;
  bool will_start_again() const override { return !is_queued_; }

  std::vector<std::unique_ptr<Part>> take_parts() && { return std::move(parts_); }

private:
  std::byte* scratch_of(std::size_t part) const { return scratch_ ? scratch_->data() + offsets_[part] : nullptr; }

  LinePtr line_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::int64_t> offsets_;
  std::shared_ptr<memory::Storage> scratch_;
  bool is_queued_ = false;
};

std::unique_ptr<Part> make_allgather(LinePtr line, Operand in, Operand out, const layout::Segments& pieces,
                                     DType dtype);
std::unique_ptr<Part> make_reduce_scatter(LinePtr line, Operand in, Operand out, const layout::Segments& pieces,
                                          DType dtype, layout::ReduceOp op);
std::unique_ptr<Part> make_allreduce(LinePtr line, Operand in, Operand out, std::int64_t count, DType dtype,
                                     layout::ReduceOp op);
std::unique_ptr<Part> make_broadcast(LinePtr line, Operand data, std::int64_t bytes, int root);
std::unique_ptr<Part> make_exchange(LinePtr line, Operand in, std::vector<Transfer> sends, Operand out,
                                    std::vector<Transfer> receives, DType dtype);

/// `operation` behind a comparison of what all ranks are about to do.
std::unique_ptr<Collective> make_checked(LinePtr line, std::unique_ptr<Collective> operation);

} // namespace ostraka::comm::nccl
