// SPDX-License-Identifier: Apache-2.0
// Random parameters, configurations and steps beside sums of whole numbers. All ranks draw the same; only the order in
// which a rank contributes, and what it reads meanwhile, is its own.
#include "support/round_16.hpp"
#include "vectors.hpp"

#include <random>

namespace ostraka::ddp::test {
namespace {

class Dice {
public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint64_t>(limit)); }
  bool once_in(int times) { return below(times) == 0; }
  template <class Values>
  void shuffle(Values& values) {
    std::shuffle(values.begin(), values.end(), random_);
  }

private:
  std::mt19937_64 random_;
};

Config draw_config(Dice& dice) {
  Config config = make_config(dice.once_in(2), !dice.once_in(4));
  config.overlap_param_gather = config.sharded_optimizer && dice.once_in(2);
  constexpr int sizes[] = {1, 40, 100, 100000};
  config.bucket_size = sizes[dice.below(4)];
  config.disable_bucketing = dice.once_in(6);
  if (config.sharded_optimizer && dice.once_in(4))
    config.arrangement = Arrangement::layer_wise;
  if (dice.once_in(3)) {
    config.gradient_dtype = DType::bf16;
    if (dice.once_in(2))
      config.f32_accumulators = {"p?"};
  }
  const bool divides_exactly = (ranks & (ranks - 1)) == 0;
  config.scaling = divides_exactly ? static_cast<Scaling>(dice.below(3)) : Scaling::sum;
  return config;
}

/// How many ranks have the same experts.
int draw_sharers(Dice& dice) {
  int sharers = 1 + dice.below(ranks);
  while (ranks % sharers != 0)
    --sharers;
  return sharers;
}

std::vector<ParameterSpec> draw_specs(Dice& dice) {
  constexpr DType types[] = {DType::f64, DType::f32, DType::bf16};
  std::vector<ParameterSpec> specs;
  const int count = 1 + dice.below(8), kinds = 1 + dice.below(3);
  for (int p = 0; p < count; ++p) {
    specs.push_back(vector_of("p" + std::to_string(p), dice.once_in(8) ? dice.below(2) : 1 + dice.below(60),
                              types[dice.below(kinds)]));
    specs.back().trainable = !dice.once_in(6);
    specs.back().shared_embedding = dice.once_in(8);
    specs.back().expert = dice.once_in(4);
  }
  return specs;
}

/// Steps of one DistributedDataParallel. Gradients are a coefficient times 0, 1 or 2, few enough for bf16.
class Steps {
public:
  Steps(std::uint64_t seed, int number, const buffer::MeshPtr& line, const buffer::MeshPtr& plane)
      : dice_(seed + number), own_dice_(seed + number + 1000 * (rank + 1)), config_(draw_config(dice_)),
        experts_(draw_sharers(dice_)),
        vectors_(dice_.once_in(2) ? line : plane, config_, draw_specs(dice_), experts_.mesh),
        optimizer_(optim::make_sgd(vectors_.ddp->named_states(), {.learning_rate = 1})) {
    for (int p = 0; p < count(); ++p) {
      weights_.push_back(constant(size(p), p + 1));
      is_any_trainable_ = is_any_trainable_ || spec(p).trainable;
    }
  }

  void step() {
    DistributedDataParallel& ddp = *vectors_.ddp;
    ddp.zero_grad_buffer();
    coefficients_.assign(count(), 0);
    const int failing = dice_.once_in(5) && is_any_trainable_ ? dice_.below(ranks) : -1;
    const int micro_batches = 1 + dice_.below(3);
    for (int m = 0; m < micro_batches; ++m) {
      const bool is_last = m == micro_batches - 1;
      if (!is_last)
        ddp.begin_no_sync();
      pass(is_last);
      read_some();
      if (!is_last)
        ddp.end_no_sync();
    }
    if (failing == rank)
      ddp.fail_step("dice");
    if (dice_.once_in(4))
      ddp.start_grad_sync();
    const bool is_forced = dice_.once_in(4);
    if (failing >= 0)
      return expect_error_everywhere(Status::USER_FAILURE, [&] { ddp.finish_grad_sync(is_forced); }, {"dice"});
    ddp.finish_grad_sync(is_forced);
    const double factor = dice_.once_in(3) ? 2 : 1;
    ddp.scale_gradients(factor);
    update(factor * (config_.scaling == Scaling::sum ? 1 : 1.0 / ranks));
    maintain();
  }

  void expect_weights() {
    for (int p = 0; p < count(); ++p)
      expect_weight(p);
  }

private:
  int count() const { return static_cast<int>(vectors_.specs().size()); }
  const ParameterSpec& spec(int p) const { return vectors_.specs()[p]; }
  std::int64_t size(int p) const { return layout::numel(spec(p).shape); }
  static double value(int p, std::int64_t k) { return static_cast<double>((k + p) % 3); }

  /// Every rank uses every parameter up to twice, and in the last micro-batch says so.
  void pass(bool is_last) {
    std::vector<std::pair<int, int>> contributions; // of this rank: parameter, coefficient
    for (int r = 0; r < ranks; ++r)
      for (int p = 0; p < count(); ++p) {
        const int uses = dice_.once_in(3) ? dice_.below(3) : 1;
        for (int u = 0; u < uses && spec(p).trainable; ++u) {
          const int coefficient = dice_.below(3);
          if (!spec(p).expert || experts_.includes(r))
            coefficients_[p] += coefficient;
          if (r == rank)
            contributions.emplace_back(p, coefficient);
        }
        if (r == rank && is_last && spec(p).trainable)
          vectors_.ddp->set_uses(spec(p).name, config_.overlap_grad_reduce ? uses : 0);
      }
    own_dice_.shuffle(contributions);
    for (const auto& [p, coefficient] : contributions)
      contribute(p, coefficient);
  }

  void contribute(int p, int coefficient) {
    const DType dtype = vectors_.ddp->gradient_dtype(spec(p).name);
    std::vector<double> values;
    for (std::int64_t k = 0; k < size(p); ++k)
      values.push_back(coefficient * value(p, k));
    on_stream(vectors_.ddp->mesh()->device(), [place = vectors_.ddp->gradient(spec(p).name, dtype), values, dtype] {
      add_elements(place, values, dtype);
    });
    vectors_.ddp->gradient_ready(spec(p).name);
  }

  void update(double factor) {
    for (int p = 0; p < count(); ++p) {
      if (!spec(p).trainable)
        continue;
      const DType main = main_dtype_of(config_, spec(p).dtype);
      const buffer::TensorRange own = vectors_.ddp->main_gradient(spec(p).name, main);
      const std::vector<double> found = elements_at(own.data, own.count, main);
      for (std::int64_t k = 0; k < own.count; ++k)
        ASSERT_EQ(found[k], factor * coefficients_[p] * value(p, own.offset + k)) << spec(p).name;
      for (std::int64_t k = 0; k < size(p); ++k)
        weights_[p][k] -= factor * coefficients_[p] * value(p, k);
    }
    if (is_any_trainable_)
      optimizer_->step();
  }

  /// Between steps.
  void maintain() {
    DistributedDataParallel& ddp = *vectors_.ddp;
    read_some();
    if (dice_.once_in(4)) {
      ddp.offload_grad_buffers();
      read_some();
      ddp.restore_grad_buffers();
    }
    if (dice_.once_in(4))
      ddp.start_param_sync(dice_.once_in(2), dice_.once_in(2));
    if (dice_.once_in(5))
      ddp.free_overlap_buffers();
    if (dice_.once_in(5)) {
      ddp.start_param_sync(true);
      ddp.reset_param_sync_dispatch_state();
      if (!ddp.has_forward_pre_hooks())
        ddp.start_param_sync();
    }
    if (dice_.once_in(6)) {
      ddp.broadcast_params();
      for (int p = 0; p < count(); ++p) // main weights follow from those of 16 bits
        weights_[p] = stored(p);
    }
    read_some();
  }

  void read_some() {
    for (int reads = own_dice_.below(4); reads > 0; --reads)
      expect_weight(own_dice_.below(count()));
  }

  void expect_weight(int p) {
    if (own_dice_.once_in(2))
      vectors_.ddp->pre_forward("");
    const DType dtype = spec(p).dtype;
    EXPECT_EQ(elements_at(vectors_.ddp->parameter(spec(p).name, dtype), size(p), dtype), stored(p)) << spec(p).name;
  }

  std::vector<double> stored(int p) const {
    std::vector<double> values = weights_[p];
    for (double& weight : values)
      weight = spec(p).dtype == DType::bf16 ? bf16_value(round_to_bf16(weight)) : weight;
    return values;
  }

  Dice dice_, own_dice_;
  Config config_;
  Experts experts_;
  Vectors vectors_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<std::vector<double>> weights_; ///< main weights, exact
  std::vector<double> coefficients_;         ///< of the gradient of this step, over all ranks
  bool is_any_trainable_ = false;
};

TEST(Random, Runs) {
  const auto line = make_mesh(), plane = make_plane();
  const std::uint64_t seed = fresh_seed("Random.Runs");
  for (int number = 0; number < rounds(25); ++number) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", run " + std::to_string(number));
    Steps steps(seed, number, line, plane);
    for (int step = 0; step < 5; ++step)
      steps.step();
    steps.expect_weights();
    if (testing::Test::HasFailure())
      return; // the rest would only repeat it
  }
}

} // namespace
} // namespace ostraka::ddp::test
