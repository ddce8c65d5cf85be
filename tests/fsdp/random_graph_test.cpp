// SPDX-License-Identifier: Apache-2.0
// Random networks and schedules against dense arithmetic: modules, parameters, orders with repeats, micro-batches,
// failures, evaluations. Gradients are short binary fractions, so that sums are exact.
#include "network.hpp"
#include "support/rounds.hpp"

#include <random>

namespace ostraka::fsdp::test {
namespace {

class Random {
public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  int from(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int odds) { return below(odds) == 0; }

private:
  std::mt19937_64 engine_;
};

struct Parameter {
  ParameterSpec spec;
  std::vector<double> weight, gradient;
};

struct Module {
  std::vector<Parameter> parameters;
  FsdpModule* sharded = nullptr;
};

/// A multiple of 1/8 below 2 that depends on everything, except that `rank` -1 stands for no particular rank.
double contribution(int of_rank, int time, int module, int parameter, std::int64_t i) {
  std::uint64_t h = 1469598103934665603ull;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(of_rank), static_cast<std::uint64_t>(time), static_cast<std::uint64_t>(module),
        static_cast<std::uint64_t>(parameter), static_cast<std::uint64_t>(i)})
    h = (h ^ part) * 1099511628211ull, h ^= h >> 29;
  return (static_cast<double>(h % 31) - 15) / 8;
}

class Graph {
public:
  Graph(const buffer::MeshPtr& mesh, std::uint64_t seed) : random_(seed) {
    config_.recipe = random_.one_in(2) ? Recipe::no_shard : Recipe::zero_3;
    config_.reduction = random_.one_in(2) ? layout::ReduceOp::sum : layout::ReduceOp::mean;
    config_.gradient_slots = random_.from(1, 3);
    config_.unified_stream = random_.one_in(2);
    if (random_.one_in(2))
      config_.prefetch = random_.below(300);
    context_ = FsdpContext::create(mesh, config_);
    modules_.resize(random_.from(1, 6));
    for (std::size_t m = 0; m < modules_.size(); ++m)
      declare(static_cast<int>(m));
    context_->finalize();
    choose_order();
    optimizer_ = optim::make_sgd(context_->named_states(), {.learning_rate = 0.125});
  }

  void run() {
    const int steps = random_.from(2, 4);
    for (int step = 0; step < steps; ++step) {
      if (random_.one_in(4))
        evaluate();
      if (random_.one_in(4))
        set_a_parameter();
      if (step > 0 && random_.one_in(4))
        fail_a_step();
      if (random_.one_in(4))
        choose_order();
      train();
    }
    expect_weights();
    EXPECT_EQ(context_->memory().transient, 0);
  }

private:
  void declare(int m) {
    Module& module = modules_[m];
    FsdpModule* parent = m > 0 && random_.one_in(3) ? modules_[random_.below(m)].sharded : nullptr;
    const std::string name = "m" + std::to_string(m);
    module.sharded = parent != nullptr ? &parent->add_module(name) : &context_->add_module(name);
    for (int p = 0, count = random_.below(5); p < count; ++p) {
      layout::Shape shape(random_.below(4));
      for (std::int64_t& extent : shape)
        extent = random_.one_in(10) ? 0 : random_.from(1, 7);
      Parameter parameter{{"p" + std::to_string(p), shape, DType::f64, !random_.one_in(5)}, {}, {}};
      module.sharded->add_parameter(parameter.spec);
      parameter.weight.assign(layout::numel(shape), 0.0);
      parameter.gradient = parameter.weight;
      module.parameters.push_back(std::move(parameter));
    }
    module.sharded->build();
    for (int p = 0; p < static_cast<int>(module.parameters.size()); ++p)
      set(m, p);
  }

  void set(int m, int p) {
    Parameter& parameter = modules_[m].parameters[p];
    const int salt = random_.below(1000);
    for (std::size_t i = 0; i < parameter.weight.size(); ++i)
      parameter.weight[i] = contribution(-1, salt, m, p, static_cast<std::int64_t>(i));
    modules_[m].sharded->set_parameter(parameter.spec.name, parameter.weight.data(),
                                       static_cast<std::int64_t>(parameter.weight.size()), DType::f64);
  }

  void set_a_parameter() {
    const int m = random_.below(static_cast<int>(modules_.size()));
    if (!modules_[m].parameters.empty())
      set(m, random_.below(static_cast<int>(modules_[m].parameters.size())));
  }

  /// Every module at least once, some more often; backward is the reverse or anything else.
  void choose_order() {
    const int count = static_cast<int>(modules_.size());
    forward_.clear();
    for (int m = 0; m < count; ++m)
      forward_.push_back(m);
    for (int extra = random_.below(count + 1); extra > 0; --extra)
      forward_.push_back(random_.below(count));
    if (random_.one_in(2))
      shuffle(forward_);
    backward_.assign(forward_.rbegin(), forward_.rend());
    if (random_.one_in(4))
      shuffle(backward_);
    recomputes_.clear();
    for (std::size_t i = 0; i < backward_.size(); ++i)
      recomputes_.push_back(random_.one_in(4));
  }
  void shuffle(std::vector<int>& order) {
    for (int i = static_cast<int>(order.size()) - 1; i > 0; --i)
      std::swap(order[i], order[random_.below(i + 1)]);
  }

  void expect_readable(int m) {
    for (const Parameter& parameter : modules_[m].parameters) {
      const auto found = elements(modules_[m].sharded->parameter(parameter.spec.name, DType::f64),
                                  static_cast<std::int64_t>(parameter.weight.size()), DType::f64);
      expect_close(found, parameter.weight, 1e-13, parameter.spec.name);
    }
  }

  void evaluate() {
    context_->begin_inference();
    for (int pass = 0; pass < 2 + rank; ++pass)
      for (std::size_t m = 0; m < modules_.size(); ++m) {
        modules_[m].sharded->pre_forward();
        expect_readable(static_cast<int>(m));
        modules_[m].sharded->post_forward();
      }
    context_->end_inference();
  }

  /// Writes this rank's contributions of one use, asked for once or twice.
  void write_gradients(int m, int time, bool in_two_parts) {
    for (std::size_t p = 0; p < modules_[m].parameters.size(); ++p) {
      const Parameter& parameter = modules_[m].parameters[p];
      if (!parameter.spec.trainable)
        continue;
      for (int part = 0; part < (in_two_parts ? 2 : 1); ++part) {
        const FsdpModule::Gradient g = modules_[m].sharded->gradient(parameter.spec.name, DType::f64);
        for (std::size_t i = 0; i < parameter.weight.size(); ++i) {
          const double value = contribution(rank, time, m, static_cast<int>(p), static_cast<std::int64_t>(i));
          contribute(static_cast<double*>(g.data) + i, g.beta, in_two_parts ? (part == 0 ? 4 + value : -4.0) : value);
        }
      }
    }
  }

  /// A rank that does not compute a use, or none; the same everywhere.
  static int skipping_rank(int m, int time) { return (3 * m + time) % 7 == 0 ? (m + time) % ranks : -1; }

  void use_backward(int m, int time, bool recomputes) {
    FsdpModule& module = *modules_[m].sharded;
    if (recomputes) {
      module.pre_forward();
      expect_readable(m);
      module.post_forward();
    }
    module.pre_backward();
    expect_readable(m);
    write_gradients(m, time, (time + m) % 3 == 0);
  }

  /// The same use on all ranks, added to the dense gradients.
  void add_dense(int m, int time) {
    const double factor = config_.reduction == layout::ReduceOp::mean ? 1.0 / ranks : 1;
    for (std::size_t p = 0; p < modules_[m].parameters.size(); ++p) {
      Parameter& parameter = modules_[m].parameters[p];
      for (std::size_t i = 0; i < parameter.weight.size() && parameter.spec.trainable; ++i)
        for (int r = 0; r < ranks; ++r)
          if (r != skipping_rank(m, time))
            parameter.gradient[i] +=
                factor * contribution(r, time, m, static_cast<int>(p), static_cast<std::int64_t>(i));
    }
  }

  /// Hooks of one micro-batch; breaks off before hook pair `stop`.
  bool pass(int stop, bool is_counted) {
    int event = 0;
    for (const int m : forward_) {
      if (event++ == stop)
        return false;
      modules_[m].sharded->pre_forward();
      expect_readable(m);
      modules_[m].sharded->post_forward();
    }
    context_->begin_backward();
    for (std::size_t k = 0; k < backward_.size(); ++k) {
      if (event++ == stop)
        return false;
      const int m = backward_[k], time = ++time_;
      const bool skips = rank == skipping_rank(m, time);
      if (skips && recomputes_[k])
        modules_[m].sharded->skip_forward();
      if (!skips)
        use_backward(m, time, recomputes_[k]);
      if (event++ == stop)
        return false;
      skips ? modules_[m].sharded->skip_backward() : modules_[m].sharded->post_backward();
      if (is_counted)
        add_dense(m, time);
    }
    return true;
  }

  void fail_a_step() {
    context_->zero_grad();
    context_->set_last_microbatch(random_.one_in(2));
    const int failing = random_.below(ranks), time = time_;
    const int stop = random_.below(static_cast<int>(forward_.size() + 2 * backward_.size()));
    if (!pass(rank == failing ? stop : -1, false))
      context_->fail_step("random");
    expect_error(Status::USER_FAILURE, [&] { context_->finish_backward(); },
                 {"random", "rank " + std::to_string(failing)});
    time_ = time + 1000; // equal on all ranks again
  }

  void train() {
    for (Module& module : modules_)
      for (Parameter& parameter : module.parameters)
        parameter.gradient.assign(parameter.gradient.size(), 0.0);
    context_->zero_grad();
    const int micro_batches = random_.from(1, 3);
    for (int k = 0; k < micro_batches; ++k) {
      context_->set_last_microbatch(k == micro_batches - 1);
      pass(-1, true);
      context_->finish_backward();
    }
    optimizer_->step();
    for (Module& module : modules_)
      for (Parameter& parameter : module.parameters)
        for (std::size_t i = 0; i < parameter.weight.size(); ++i)
          parameter.weight[i] -= 0.125 * parameter.gradient[i];
  }

  void expect_weights() {
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      modules_[m].sharded->unshard();
      expect_readable(static_cast<int>(m));
      modules_[m].sharded->reshard();
    }
  }

  Random random_;
  ContextConfig config_;
  std::shared_ptr<FsdpContext> context_;
  std::vector<Module> modules_;
  std::vector<int> forward_, backward_;
  std::vector<bool> recomputes_; ///< [use in backward_]
  std::unique_ptr<optim::Optimizer> optimizer_;
  int time_ = 0;
};

void run_cases(std::uint64_t seed, int count) {
  const auto mesh = make_mesh();
  for (int i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    try {
      Graph(mesh, seed + i).run();
    } catch (const Error& error) {
      ADD_FAILURE() << name(error.status()) << ": " << error.what();
    }
  }
}

TEST(RandomGraph, FixedSeed) { run_cases(20240601, ostraka::test::rounds(30)); }
TEST(RandomGraph, FreshSeed) { run_cases(fresh_seed("RandomGraph.FreshSeed"), ostraka::test::rounds(10)); }

} // namespace
} // namespace ostraka::fsdp::test
