// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/impl/copy_transfers.hpp>
#include <ostraka/comm/self/self_communicator.hpp>
#include <ostraka/runtime/device.hpp>

namespace ostraka::comm {

namespace {

// With one rank every collective is a copy on the stream, or nothing when it is in place.
class Copy final : public Collective {
public:
  Copy(Operand in, Operand out, std::int64_t bytes) : in_(std::move(in)), out_(std::move(out)), bytes_(bytes) {}
  bool is_stream_ordered() const override { return true; }
  void start() override { runtime::copy(execution(), in_.data(), out_.data(), bytes_); }
  bool test() override { return true; }

private:
  Operand in_;
  Operand out_;
  std::int64_t bytes_;
};

class Exchange final : public Collective {
public:
  Exchange(Operand in, std::vector<Transfer> sends, Operand out, std::vector<Transfer> receives, std::int64_t width)
      : in_(std::move(in)), sends_(std::move(sends)), out_(std::move(out)), receives_(std::move(receives)),
        width_(width) {}
  bool is_stream_ordered() const override { return true; }
  void start() override {
    impl::copy_transfers(
        in_.data(), sends_, 0, out_.data(), receives_, 0, width_,
        [&](const std::byte* from, std::byte* to, std::int64_t bytes) { runtime::copy(execution(), from, to, bytes); });
  }
  bool test() override { return true; }

private:
  Operand in_;
  std::vector<Transfer> sends_;
  Operand out_;
  std::vector<Transfer> receives_;
  std::int64_t width_;
};

class SelfCommunicator final : public Communicator {
public:
  explicit SelfCommunicator(std::string name) : Communicator(std::move(name), 0, 1) {}

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                             DType dtype) override {
    return std::make_unique<Copy>(std::move(in), std::move(out), pieces.size() * size_of(dtype));
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                                                  layout::ReduceOp) override {
    return std::make_unique<Copy>(std::move(in), std::move(out), pieces.size() * size_of(dtype));
  }
  std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                             layout::ReduceOp) override {
    return std::make_unique<Copy>(std::move(in), std::move(out), count * size_of(dtype));
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t, int) override {
    return std::make_unique<Copy>(data, data, 0);
  }
  std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                            std::vector<Transfer> receives, DType dtype) override {
    return std::make_unique<Exchange>(std::move(in), std::move(sends), std::move(out), std::move(receives),
                                      size_of(dtype));
  }
};

} // namespace

std::shared_ptr<Communicator> make_self_communicator(std::string name) {
  return std::make_shared<SelfCommunicator>(std::move(name));
}

} // namespace ostraka::comm
