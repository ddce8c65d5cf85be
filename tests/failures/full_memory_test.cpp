// SPDX-License-Identifier: Apache-2.0
// What becomes of a mesh and of a context when /dev/shm is small or full. failures.py gives these processes a /dev/shm
// of their own.
#include "fsdp/network.hpp"

#include <sys/statvfs.h>

#include <algorithm>

namespace ostraka::fsdp::test {
namespace {

constexpr std::int64_t mebi = std::int64_t{1} << 20;

std::int64_t bytes_of_dev_shm(bool free) {
  struct statvfs info = {};
  EXPECT_EQ(statvfs("/dev/shm", &info), 0);
  return static_cast<std::int64_t>(free ? info.f_bavail : info.f_blocks) * static_cast<std::int64_t>(info.f_frsize);
}

// 64 MiB, as in containers: MPI carries everything, and nothing is taken from there.
TEST(SmallDevShm, AMeshDoesWithoutIt) {
  ASSERT_LE(bytes_of_dev_shm(false), 64 * mebi);
  const auto mesh = make_mesh();
  EXPECT_EQ(mesh->make_shared_memory(), nullptr);
  const std::int64_t free = bytes_of_dev_shm(true);
  Options options;
  options.net = mlp({512, 512, 512});
  Training<double> training(mesh, options);
  for (int step = 0; step < 2; ++step)
    training.step();
  training.expect_equal(1e-12);
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(bytes_of_dev_shm(true), free);
}

/// Room for a mesh, but for few weights.
class FullDevShm : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_LE(total_, 300 * mebi * ranks);
    mesh_ = make_mesh();
    free_ = bytes_of_dev_shm(true);
    ASSERT_NE(mesh_->make_shared_memory(), nullptr) << "the node back end is off";
    context_ = FsdpContext::create(mesh_);
    module_ = &context_->add_module("m");
  }

  // Whatever failed, everything is given back.
  void TearDown() override {
    context_.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_GE(bytes_of_dev_shm(true), free_);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /// A parameter of about `parts` hundredths of /dev/shm.
  void declare(const std::string& name, int parts, DType dtype, bool trainable) {
    module_->add_parameter({name, {total_ / 100 * parts / width_of(dtype)}, dtype, trainable});
  }

  void expect_no_room() {
    expect_error(Status::OUT_OF_MEMORY, [&] { module_->build(); }, {"/dev/shm", "rank ", "OSTRAKA_BACKEND=mpi"});
    EXPECT_FALSE(module_->is_built());
    const std::int64_t free = bytes_of_dev_shm(true);
    EXPECT_GE(free, total_ * 9 / 10) << "pages of the failed build were kept";
    EXPECT_EQ(context_->memory().reserved, 0);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  /// Two parameters that fit, in two groups, of the module that did not fit before.
  void expect_usable() {
    declare("a", 1, DType::f64, true);
    declare("b", 1, DType::f32, true);
    set_up();
    expect_step();
  }

  void set_up() {
    module_->build();
    set_ones<double>("a");
    set_ones<float>("b");
    context_->finalize();
    module_->pre_forward();
    module_->post_forward();
    module_->pre_backward();
    write_ones<double>("a");
    write_ones<float>("b");
    module_->post_backward();
    context_->finish_backward();
  }

  void expect_step() {
    optim::make_sgd(context_->named_states(), {0.5, 0, 0})->step();
    module_->unshard();
    expect_halves<double>("a");
    expect_halves<float>("b");
    module_->reshard();
  }

  std::int64_t total_ = bytes_of_dev_shm(false);
  buffer::MeshPtr mesh_;
  std::int64_t free_ = 0;
  std::shared_ptr<FsdpContext> context_;
  FsdpModule* module_ = nullptr;

private:
  template <class T>
  static constexpr DType dtype_of = std::is_same_v<T, double> ? DType::f64 : DType::f32;

  std::int64_t count(const std::string& name) const { return layout::numel(module_->spec(name).shape); }

  template <class T>
  void set_ones(const std::string& name) {
    const std::vector<T> ones(static_cast<std::size_t>(count(name)), 1);
    module_->set_parameter(name, ones.data(), count(name), dtype_of<T>);
  }
  template <class T>
  void write_ones(const std::string& name) {
    std::fill_n(static_cast<T*>(module_->gradient(name, dtype_of<T>).data), count(name), T(1));
  }
  template <class T>
  void expect_halves(const std::string& name) {
    const auto* weight = static_cast<const T*>(module_->parameter(name, dtype_of<T>));
    EXPECT_EQ(std::count(weight, weight + count(name), T(0.5)), count(name)) << name;
  }
};

TEST_F(FullDevShm, WeightsThatDoNotFit) {
  declare("w", 120, DType::f64, false);
  expect_no_room();
  expect_usable();
}

TEST_F(FullDevShm, GradientsThatDoNotFitBesideWeights) {
  declare("w", 60, DType::f64, true);
  expect_no_room();
  expect_usable();
}

// Some ranks get their part of the first group and others do not: none of them goes on to the second.
TEST_F(FullDevShm, TheFirstOfTwoGroupsDoesNotFit) {
  for (int round = 0; round < 3; ++round) {
    declare("v", 101 + 5 * round, DType::f64, true);
    declare("w", 1, DType::f32, true);
    expect_no_room();
  }
  expect_usable();
}

// Gradients of a step, which every rank has whole: known at the end of set-up.
TEST_F(FullDevShm, GradientSlotsThatDoNotFit) {
  declare("w", 33, DType::f64, true);
  module_->build();
  expect_error(Status::OUT_OF_MEMORY, [&] { context_->finalize(); }, {"/dev/shm", "rank "});
  EXPECT_FALSE(context_->is_finalized());
  context_ = FsdpContext::create(mesh_);
  module_ = &context_->add_module("m");
  expect_usable();
}

// Weights, gradients and two slots a rank fit, two moments do not; nothing has changed, and a smaller optimizer works.
TEST_F(FullDevShm, OptimizerStateThatDoesNotFit) {
  declare("a", 90 / (2 + 2 * ranks), DType::f64, true);
  module_->add_parameter({"b", {5}, DType::f32, true});
  set_up();
  const auto adamw = optim::make_adamw(context_->named_states(), {});
  expect_error(Status::OUT_OF_MEMORY, [&] { adamw->step(); }, {"/dev/shm", "rank "});
  expect_step();
}

} // namespace
} // namespace ostraka::fsdp::test
