// SPDX-License-Identifier: Apache-2.0
// A dense network in an FsdpContext beside its plain twin, and training steps of both.
#pragma once

#include "dense.hpp"
#include "support/any_memory.hpp"
#include "support/expect_error.hpp"
#include "support/on_stream.hpp"
#include "support/world.hpp"
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/optim/optimizer.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace ostraka::fsdp::test {

using namespace ostraka::test;

/// All ranks on one axis. Memory that nobody wrote, or that was released, is NaN from here on, unless the environment
/// says otherwise.
inline buffer::MeshPtr make_mesh() {
  setenv("OSTRAKA_CHECK", "1", 0);
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
}

/// Two replicas of half of the ranks each, where that is possible, else one.
inline buffer::MeshPtr make_plane() {
  setenv("OSTRAKA_CHECK", "1", 0);
  const int outer = ranks % 2 == 0 ? 2 : 1;
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, {outer, ranks / outer});
}

/// Calls body(mesh, recipe) for all recipes, each on a mesh that fits.
template <class Body>
void for_all_recipes(Body&& body) {
  const auto line = make_mesh(), plane = make_plane();
  for (int number = 0; number <= static_cast<int>(Recipe::zero_1_zero_2); ++number) {
    const auto recipe = static_cast<Recipe>(number);
    SCOPED_TRACE("recipe " + std::to_string(number));
    body(recipe > Recipe::zero_3 ? plane : line, recipe);
  }
}

/// Ranks in a row that stand on one node, as the environment says; tests run on one machine.
inline int ranks_per_node() {
  const char* pieces = std::getenv("OSTRAKA_RANKS_PER_NODE");
  return pieces == nullptr ? ranks : std::min(std::atoi(pieces), ranks);
}

/// Whether the meshes of this program are on devices.
inline bool is_on_device() {
  const char* device = std::getenv("OSTRAKA_DEVICE");
  return device != nullptr && std::string(device) != "host";
}

/// By the environment, ranks of the node of this one, itself included, that use memory together.
inline int sharing_ranks() {
  if (is_on_device())
    return 1;
  const char* backend = std::getenv("OSTRAKA_BACKEND");
  if (backend != nullptr && std::string(backend) == "mpi")
    return 1;
  const int first = rank / ranks_per_node() * ranks_per_node();
  return std::min(ranks_per_node(), ranks - first);
}

/// Whether all ranks use one copy of the weights: then nothing is gathered.
inline bool shares_weights() { return ranks > 1 && sharing_ranks() == ranks; }

/// Whether some ranks share memory: then what no_shard updates is cut among all.
inline bool cuts_updates() {
  const char* backend = std::getenv("OSTRAKA_BACKEND");
  if (is_on_device())
    return false;
  const bool is_mpi = backend != nullptr && std::string(backend) == "mpi";
  return !is_mpi && ranks > 1 && ranks_per_node() > 1;
}

inline ContextConfig make_config(Recipe recipe, layout::ReduceOp reduction = layout::ReduceOp::mean) {
  ContextConfig config;
  config.recipe = recipe;
  config.reduction = reduction;
  return config;
}

constexpr Recipe all_recipes[] = {Recipe::zero_3, Recipe::no_shard};
/// Those that shard over the innermost of several axes.
constexpr Recipe hybrid_recipes[] = {Recipe::hsdp, Recipe::hfsdp, Recipe::zero_1_zero_2};
inline const char* text(Recipe recipe) {
  constexpr const char* names[] = {"no_shard", "zero_1", "zero_2", "zero_3", "hsdp", "hfsdp", "zero_1_zero_2"};
  return names[static_cast<int>(recipe)];
}

/// Whole tensors of main weights from the shards of all ranks, without the library's gathers. Collective.
inline Values whole_main_weights(const FsdpContext& context) {
  Values whole;
  for (const buffer::NamedState& state : context.named_states())
    for (int i = 0; i < state.main_weight.layout()->num_tensors(); ++i) {
      const buffer::TensorRange own = state.main_weight.tensor_range(i);
      std::vector<double> tensor(state.main_weight.layout()->tensor_range(i).size(), -1e300);
      const std::vector<double> part = elements_at(own.data, own.count, state.main_weight.dtype());
      std::copy(part.begin(), part.end(), tensor.begin() + own.offset);
      settle(context.mesh()->device());
      MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(tensor.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      whole.push_back(std::move(tensor));
    }
  return whole;
}

/// The gathered weights as handed out. Collective.
inline std::vector<double> whole_parameter(FsdpModule& module, const std::string& name) {
  module.unshard();
  const ParameterSpec& spec = module.spec(name);
  const DType compute = spec.dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto values = elements_at(module.parameter(name, compute), layout::numel(spec.shape), compute);
  module.reshard();
  return values;
}

/// |found - expected| <= tolerance * (1 + |expected|) for all elements; says where not.
inline void expect_close(const std::vector<double>& found, const std::vector<double>& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (!(std::abs(found[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])))) {
      ADD_FAILURE() << what << ", element " << i << ": expected " << expected[i] << ", found " << found[i];
      return;
    }
}

struct Options {
  Architecture net = mlp({8, 16, 4});
  ContextConfig config = make_config(Recipe::zero_3);
  DType storage = DType::f64;
  PlainOptimizer optimizer = {};
  int micro_batches = 1;
  int rows = 12;                      ///< of the whole batch of a micro-batch, over all ranks
  std::vector<int> registration = {}; ///< order of add_module; empty: as numbered
};

/// T: the compute type of `storage`.
template <class T>
class Training {
public:
  Training(const buffer::MeshPtr& mesh, Options options)
      : options_(std::move(options)), context_(FsdpContext::create(mesh, options_.config)),
        weights_(initial_values(options_.net)), plain_(options_.optimizer) {
    static constexpr DType compute = std::is_same_v<T, double> ? DType::f64 : DType::f32;
    compute_ = compute;
    const int modules = static_cast<int>(options_.net.modules.size());
    modules_.resize(modules);
    for (int k = 0; k < modules; ++k) {
      const int m = options_.registration.empty() ? k : options_.registration[k];
      modules_[m] = &context_->add_module("layer" + std::to_string(m));
      const Dense layer = options_.net.modules[m];
      modules_[m]->add_parameter({"weight", {layer.out, layer.in}, options_.storage, true});
      modules_[m]->add_parameter({"bias", {layer.out}, options_.storage, true});
      modules_[m]->build();
      modules_[m]->set_parameter("weight", weights_[2 * m].data(), layer.in * layer.out, DType::f64);
      modules_[m]->set_parameter("bias", weights_[2 * m + 1].data(), layer.out, DType::f64);
    }
    context_->finalize();
    make_optimizer();
  }

  FsdpContext& context() { return *context_; }
  FsdpModule& module(int m) { return *modules_[m]; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const Values& plain_weights() const { return weights_; }
  DType compute_dtype() const { return compute_; }
  /// May be given other visits between steps.
  Architecture& net() { return options_.net; }
  int num_modules() const { return static_cast<int>(modules_.size()); }
  void destroy() {
    optimizer_.reset();
    context_.reset();
  }

  /// This rank's rows of a micro-batch: later ranks have more, the first of many may have none.
  RowRange rows(int micro_batch) const {
    const int parts = ranks * (ranks + 1) / 2;
    const int base = micro_batch * options_.rows;
    return {base + options_.rows * (rank * (rank + 1) / 2) / parts,
            base + options_.rows * ((rank + 1) * (rank + 2) / 2) / parts};
  }

  /// Events of a pass at which it can be broken off: before, inside and after hooks.
  int events() const { return 5 * static_cast<int>(options_.net.visits.size()) + 1; }

  /// Forward and backward of this rank's part; broken off before event `stop`. Returns whether it is complete.
  bool pass(int micro_batch, int stop = -1) {
    const std::vector<int>& visits = options_.net.visits;
    const int last = static_cast<int>(visits.size()) - 1;
    int event = 0;
    const auto stops = [&] { return event++ == stop; };
    std::vector<Rows> x{shared(data_rows<T>(rows(micro_batch), options_.net.modules[visits[0]].in, input_value))};
    for (int v = 0; v <= last; ++v) {
      const int m = visits[v];
      if (stops())
        return false;
      modules_[m]->pre_forward();
      x.push_back(shared({}));
      compute([layer = options_.net.modules[m], bends = v < last, in = x[v], out = x[v + 1]](
                  auto weight, auto bias) { *out = dense_forward(layer, bends, weight.data(), bias.data(), *in); },
              read(m, "weight"), read(m, "bias"));
      if (stops())
        return false;
      modules_[m]->post_forward();
    }
    const Rows d = shared(data_rows<T>(rows(micro_batch), options_.net.modules[visits[last]].out, target_value));
    compute([d, out = x[last + 1], factor = static_cast<T>(local_factor())] {
      for (std::size_t i = 0; i < d->size(); ++i)
        (*d)[i] = factor * ((*out)[i] - (*d)[i]);
    });
    for (int v = last; v >= 0; --v) {
      const int m = visits[v];
      const Dense layer = options_.net.modules[m];
      if (stops())
        return false;
      modules_[m]->pre_backward();
      if (stops())
        return false;
      compute([bends = v < last, out = x[v + 1], d] { dense_unbend(bends, *out, *d); });
      const FsdpModule::Gradient weight = modules_[m]->gradient("weight", compute_);
      compute([=, in = x[v], beta = weight.beta](auto out) { dense_weight_gradient(layer, *in, *d, beta, out.data()); },
              span_of(static_cast<T*>(weight.data), layer.in * layer.out));
      if (stops())
        return false;
      const FsdpModule::Gradient bias = modules_[m]->gradient("bias", compute_);
      compute([=, beta = bias.beta](auto out) { dense_bias_gradient(layer, *d, beta, out.data()); },
              span_of(static_cast<T*>(bias.data), layer.out));
      compute([=](auto weights) { *d = dense_input_gradient(layer, weights.data(), *d); }, read(m, "weight"));
      modules_[m]->post_backward();
    }
    return !stops();
  }

  /// The micro-batches of a step, without the update.
  void backward_all() {
    context_->zero_grad();
    for (int k = 0; k < options_.micro_batches; ++k) {
      context_->set_last_microbatch(k == options_.micro_batches - 1);
      pass(k);
      context_->finish_backward();
    }
  }

  Values plain_gradients(const Values& weights) const {
    Values gradients = zeros_like(weights);
    const double factor = options_.config.reduction == layout::ReduceOp::mean ? local_factor() / ranks : local_factor();
    for (int k = 0; k < options_.micro_batches; ++k)
      add_gradients(options_.net, weights, {k * options_.rows, (k + 1) * options_.rows}, factor, gradients);
    return gradients;
  }

  void plain_step() { plain_.step(weights_, plain_gradients(weights_)); }
  /// For twins that see other weights than the main ones.
  void plain_step(const Values& seen) { plain_.step(weights_, plain_gradients(seen)); }

  void step() {
    backward_all();
    optimizer_->step();
    plain_step();
  }

  /// Gathered weights against the twin's. Collective.
  void expect_equal(double tolerance, const std::string& what = "weights") {
    for (int m = 0; m < num_modules(); ++m) {
      expect_close(whole_parameter(*modules_[m], "weight"), weights_[2 * m], tolerance,
                   what + ", weight " + std::to_string(m));
      expect_close(whole_parameter(*modules_[m], "bias"), weights_[2 * m + 1], tolerance,
                   what + ", bias " + std::to_string(m));
    }
  }

  /// One right step: what has to work after every error that is not terminal. Collective.
  void expect_usable(const std::string& what) {
    SCOPED_TRACE("a step after " + what);
    try {
      step();
      expect_equal(1e-12, "after " + what);
    } catch (const Error& error) {
      ADD_FAILURE() << "the context is not usable after " << what << ": " << error.what();
    }
  }

private:
  using Rows = std::shared_ptr<std::vector<T>>;
  static Rows shared(std::vector<T> values) { return std::make_shared<std::vector<T>>(std::move(values)); }
  /// Arithmetic of the network, in the order of the compute stream.
  template <class Body, class... Memory>
  void compute(Body&& body, Memory... memory) const {
    on_stream(context_->mesh()->device(), std::forward<Body>(body), memory...);
  }

  std::span<const T> read(int m, const char* name) const {
    return span_of(static_cast<const T*>(modules_[m]->parameter(name, compute_)),
                   layout::numel(modules_[m]->spec(name).shape));
  }

  /// What a row's squared error is multiplied with on its rank, so that both reductions give the whole batch's mean.
  double local_factor() const {
    const double mean = 1.0 / (options_.rows * options_.micro_batches);
    return options_.config.reduction == layout::ReduceOp::mean ? mean * ranks : mean;
  }

  void make_optimizer() {
    const PlainOptimizer& o = options_.optimizer;
    if (o.is_adamw)
      optimizer_ = optim::make_adamw(context_->named_states(), {o.rate, o.beta1, o.beta2, o.epsilon, o.weight_decay});
    else
      optimizer_ = optim::make_sgd(context_->named_states(), {o.rate, o.momentum, o.weight_decay});
  }

  Options options_;
  std::shared_ptr<FsdpContext> context_;
  std::vector<FsdpModule*> modules_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Values weights_; ///< of the twin
  PlainOptimizer plain_;
  DType compute_;
};

} // namespace ostraka::fsdp::test
