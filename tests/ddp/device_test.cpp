// SPDX-License-Identifier: Apache-2.0
// Gradients and weights in memory of GPUs, on the double of CUDA and NCCL: which calls of NCCL a step makes, and what
// it waits for.
#include "network.hpp"
#include "support/double/double.hpp"
#include "vectors.hpp"

#include <map>
#include <set>

namespace ostraka::ddp::test {
namespace {

using cuda_double::Call;
using runtime::Device;

constexpr int layers = 4, width = 16;
constexpr std::int64_t layer_size = width * width + width; ///< needs no padding on up to four ranks

buffer::MeshPtr make_device_mesh(std::vector<int> sizes = {ranks}) {
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, std::move(sizes), {}, Device::cuda);
}

/// A bucket per layer where buckets are reduced on their own; else one per type.
Options four_layers(bool sharded, bool overlap, std::vector<DType> storages = {DType::f64}) {
  Options options;
  options.net = mlp({width, width, width, width, width});
  options.config = make_config(sharded, overlap);
  options.config.bucket_size = layer_size;
  options.config.gradient_dtype = std::nullopt;
  options.storages = std::move(storages);
  options.micro_batches = 2;
  return options;
}

std::vector<Call> calls_of_a_step(Training& training) {
  training.step();
  training.parameters();
  cuda_double::take_calls();
  training.step();
  training.parameters();
  return cuda_double::take_calls();
}

int count(const std::vector<Call>& calls, const std::string& name) {
  return static_cast<int>(
      std::count_if(calls.begin(), calls.end(), [&](const Call& call) { return call.name == name; }));
}

/// Of one kind, in how many launches.
int launches(const std::vector<Call>& calls, const std::string& name) {
  std::set<int> found;
  for (const Call& call : calls)
    if (call.name == name)
      found.insert(call.launch);
  return static_cast<int>(found.size());
}

// However many micro-batches there are.
TEST(DdpDevice, CallsOfAStepAreOneForEachBucket) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  const auto mesh = make_device_mesh();
  for (const bool sharded : {false, true}) {
    Training training(mesh, four_layers(sharded, true));
    const std::vector<Call> calls = calls_of_a_step(training);
    EXPECT_EQ(count(calls, "ncclAllReduce"), sharded ? 0 : layers);
    EXPECT_EQ(count(calls, "ncclReduceScatter"), sharded ? layers : 0);
    EXPECT_EQ(count(calls, "ncclAllGather"), sharded ? layers : 0);
    EXPECT_EQ(calls.size(), static_cast<std::size_t>(sharded ? 2 * layers : layers));
    std::map<std::string, std::set<int>> streams;
    std::set<int> launches;
    for (const Call& call : calls) {
      const bool gathers = call.name == "ncclAllGather";
      EXPECT_EQ(call.communicator, !sharded ? "ddp data" : gathers ? "ddp axis0 gather" : "ddp axis0 reduce");
      EXPECT_GE(call.count * (sharded ? ranks : 1), layer_size);
      EXPECT_LT(call.count * (sharded ? ranks : 1), layer_size + 384); // lcm(3, 128)
      streams[call.name].insert(call.stream);
      launches.insert(call.launch);
    }
    EXPECT_EQ(launches.size(), calls.size());
    for (const auto& [name, found] : streams)
      EXPECT_EQ(found.size(), 1u) << name;
    if (sharded) {
      EXPECT_NE(streams["ncclAllGather"], streams["ncclReduceScatter"]);
    }
    training.expect_equal(1e-12);
  }
}

// Buckets that start together: those of two types.
TEST(DdpDevice, BucketsThatStartTogetherAreOneLaunch) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  const auto mesh = make_device_mesh();
  for (const bool sharded : {false, true})
    for (const bool gathers_ahead : {false, true}) {
      Options options = four_layers(sharded, false, {DType::f64, DType::f32});
      options.config.overlap_param_gather = sharded && gathers_ahead;
      Training training(mesh, options);
      const std::vector<Call> calls = calls_of_a_step(training);
      for (const char* name : {"ncclAllReduce", "ncclReduceScatter", "ncclAllGather"}) {
        const bool is_due = sharded == (name != std::string("ncclAllReduce"));
        EXPECT_EQ(count(calls, name), is_due ? 2 : 0) << name;
        EXPECT_EQ(launches(calls, name), is_due ? 1 : 0) << name;
      }
      training.expect_equal(2e-5);
    }
}

// Over two axes one launch for each, but a forced all-reduce is one; dense parameters have other ranks than experts.
TEST(DdpDevice, LaunchesOfTwoAxesAndOfExperts) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks != 4)
    GTEST_SKIP() << "two axes of two ranks";
  const Experts experts(2);
  Vectors v(make_device_mesh({2, 2}), make_config(true, false),
            {vector_of("a.w", 30), vector_of("b.w", 30, DType::f32), expert(vector_of("c.w", 30))}, experts.mesh);
  for (const bool is_forced : {false, true}) {
    v.ddp->zero_grad_buffer();
    v.backward(std::ldexp(ranks, rank)); // a sum says who was in it
    v.ddp->finish_grad_sync(is_forced);
    settle(Device::cuda);
    cuda_double::take_calls();
    v.ddp->zero_grad_buffer();
    v.backward(std::ldexp(ranks, rank)); // a sum says who was in it
    v.ddp->finish_grad_sync(is_forced);
    std::map<std::string, std::map<int, int>> launches; // [call and communicator][launch]
    for (const Call& call : cuda_double::take_calls())
      ++launches[call.name + " of " + call.communicator][call.launch];
    std::map<std::string, int> expected{{"ncclReduceScatter of ddp axis1 reduce", 2},
                                        {"ncclAllReduce of ddp axis0 reduce", 2},
                                        {"ncclReduceScatter of ddp experts axis0 reduce", 1}};
    if (is_forced)
      expected = {{"ncclAllReduce of ddp data", 2}, {"ncclAllReduce of ddp experts data", 1}};
    for (const auto& [what, sizes] : launches) {
      ASSERT_EQ(sizes.size(), 1u) << what;
      EXPECT_EQ(sizes.begin()->second, expected[what]) << what;
    }
    EXPECT_EQ(launches.size(), expected.size());
    v.expect_gradient("a.w", 15, 2);
    v.expect_gradient("b.w", 15, 2);
    v.expect_gradient("c.w", experts.sum, 2);
  }
}

/// While one lives the device runs nothing.
struct Held {
  Held() { cuda_double::hold_device(true); }
  ~Held() { cuda_double::hold_device(false); }
};

/// Calls body(options) for all configurations, with gradients of their own type, of bf16, and accumulated.
template <class Body>
void for_all_gradients(Body&& body) {
  for (const bool sharded : {false, true})
    for (const bool overlap : {false, true})
      for (const int gradients : {0, 1, 2}) {
        Options options = four_layers(sharded, overlap, {DType::f64, DType::f32});
        if (gradients > 0)
          options.config.gradient_dtype = DType::bf16;
        if (gradients > 1)
          options.config.f32_accumulators = {"*.weight"};
        options.config.scaling = gradients == 1 ? Scaling::pre_scale : Scaling::mean;
        SCOPED_TRACE(std::string(sharded ? "sharded" : "all-reduce") + (overlap ? ", overlap" : "") + ", gradients " +
                     std::to_string(gradients));
        body(options, gradients > 0 ? 0.02 : 2e-5);
      }
}

// Not even for the end of reductions: the host is through two steps before the device has begun.
TEST(DdpDevice, StepsDoNotWaitForTheDevice) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0"), limit("OSTRAKA_TIMEOUT_S", "20");
  const auto mesh = make_device_mesh();
  for_all_gradients([&](Options options, double tolerance) {
    options.optimizer.epsilon = 1e-2;
    options.optimizer.is_adamw = true;
    Training training(mesh, options);
    training.step(); // compares weights
    {
      const Held held;
      training.step();
      training.step();
    }
    training.expect_equal(tolerance);
  });
}

/// Steps whose values are whole numbers, exact in every type and others in every step. The compute stream looks at
/// weights in forward passes, and at whole gradients, which every other step has; hosts look at what it saw.
class Counted {
public:
  Counted(const buffer::MeshPtr& mesh, const Config& config)
      : vectors_(mesh, config,
                 {vector_of("a.w", 30), vector_of("b.w", 50, DType::f32), vector_of("c.w", 30, DType::f32),
                  vector_of("d.w", 40)}),
        optimizer_(optim::make_sgd(vectors_.ddp->named_states(), {.learning_rate = 1})) {}

  void step() {
    DistributedDataParallel& ddp = *vectors_.ddp;
    const bool is_forced = ++steps_ % 2 == 0;
    ddp.zero_grad_buffer();
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      const std::string& name = vectors_.specs()[p].name;
      ddp.set_uses(name, is_unused(p) ? 0 : 1);
      ddp.pre_forward(name.substr(0, 1));
      look(ddp.parameter(name, dtype(p)), p, dtype(p), weights_[p]);
    }
    std::vector<const void*> gradients(weights_.size());
    for (std::size_t p = weights_.size(); p-- > 0;)
      gradients[p] = contribute(p);
    ddp.finish_grad_sync(is_forced);
    for (std::size_t p = 0; p < weights_.size(); ++p) {
      const double sum = is_unused(p) ? 0 : 3 * factor(p) * sum_of_ranks();
      if (is_forced && gradients[p] != nullptr)
        look(gradients[p], p, ddp.gradient_dtype(vectors_.specs()[p].name), sum);
      weights_[p] -= sum;
    }
    optimizer_->step();
  }

  void expect_right() {
    settle(Device::cuda);
    EXPECT_EQ(*seen_, expected_);
    for (std::size_t p = 0; p < weights_.size(); ++p)
      vectors_.expect_weight(vectors_.specs()[p].name, weights_[p]);
  }

private:
  DType dtype(std::size_t p) const { return vectors_.specs()[p].dtype; }
  bool is_unused(std::size_t p) const { return p == 2 && steps_ % 3 == 0; }
  double factor(std::size_t p) const { return static_cast<double>((steps_ + p) % 3) + 1; }

  /// In two parts; returns where the gradient is.
  const void* contribute(std::size_t p) {
    const std::string& name = vectors_.specs()[p].name;
    if (is_unused(p))
      return nullptr;
    const double value = factor(p) * (rank + 1);
    vectors_.ddp->begin_no_sync();
    vectors_.write(name, value);
    vectors_.ddp->end_no_sync();
    const void* data = vectors_.ddp->gradient(name, vectors_.ddp->gradient_dtype(name)).data;
    vectors_.contribute(name, 2 * value);
    return data;
  }

  void look(const void* data, std::size_t p, DType dtype, double value) {
    const std::int64_t count = vectors_.size(vectors_.specs()[p].name);
    on_stream(Device::cuda, [=, seen = seen_] { seen->push_back(elements(data, count, dtype)); });
    expected_.push_back(constant(count, value));
  }

  Vectors vectors_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<double> weights_ = {1, 2, 3, 4};
  std::shared_ptr<std::vector<std::vector<double>>> seen_ = std::make_shared<std::vector<std::vector<double>>>();
  std::vector<std::vector<double>> expected_;
  int steps_ = 0;
};

// All that steps queue is there before the device begins, so every wait that is missing has its chance.
TEST(DdpDevice, AnyOrderOfStreams) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  const std::vector<buffer::MeshPtr> meshes = {make_device_mesh(),
                                               make_device_mesh({ranks == 4 ? 2 : 1, ranks == 4 ? 2 : ranks})};
  for (int seed = 1; seed <= rounds(2); ++seed)
    for_all_gradients([&](const Options& options, double) {
      Config config = options.config;
      config.scaling = Scaling::sum;
      config.bucket_size = 40;
      if (config.gradient_dtype && !config.f32_accumulators.empty())
        config.f32_accumulators = {"b.*", "d.*"};
      cuda_double::set_seed(seed);
      Counted counted(meshes[seed % 2], config);
      counted.step(); // compares weights
      {
        const Held held;
        counted.step();
        counted.step();
      }
      counted.step();
      counted.step();
      counted.expect_right();
    });
}

// The compute stream may be the caller's, and another one later.
TEST(DdpDevice, StepsOnStreamsOfTheCaller) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  const auto theirs = runtime::make_queue(Device::cuda, "the caller's");
  void* native = nullptr;
  theirs->launch("native", [&](const runtime::Execution& execution) { native = execution.native; });
  Training training(make_device_mesh(), four_layers(true, true));
  training.step();
  runtime::set_compute_stream(native);
  training.step();
  training.step();
  runtime::set_compute_stream(nullptr);
  training.step();
  training.expect_equal(1e-12);
}

// Addresses are the device's, and values of the host come by copies.
TEST(DdpDevice, AddressesAreTheDevices) {
  Vectors v(make_device_mesh(), make_config(true), letters(3));
  EXPECT_TRUE(runtime::is_device_memory(v.ddp->parameter("a.w", DType::f64)));
  EXPECT_TRUE(runtime::is_device_memory(v.ddp->gradient("a.w", DType::f64).data));
  v.expect_weight("c.w", 3);
  v.expect_usable("questions");
}

TEST(DdpDevice, MeshesOnTwoDevicesAreRefused) {
  const auto host = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, Device::host);
  expect_error_everywhere(Status::INVALID_ARGUMENT,
                          [&] { DistributedDataParallel::create(make_device_mesh(), {}, host); },
                          {"expert mesh", "another device"});
}

} // namespace
} // namespace ostraka::ddp::test
