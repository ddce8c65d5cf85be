// SPDX-License-Identifier: Apache-2.0
// What reductions leave in gradient buffers (spec 6.6), with values that say which ranks were summed.
#include "support/round_16.hpp"
#include "vectors.hpp"

#include <random>

namespace ostraka::ddp::test {
namespace {

/// What a gradient of rank + 1 on each rank becomes.
double reduced(Scaling scaling) { return scaling == Scaling::sum ? sum_of_ranks() : sum_of_ranks() / ranks; }

constexpr Scaling scalings[] = {Scaling::mean, Scaling::pre_scale, Scaling::sum};

TEST(GradSync, MicroBatchesAddUpBeforeTheReduction) {
  const auto mesh = make_mesh();
  for_all_configs([&](Config config) {
    for (const Scaling scaling : scalings) {
      config.scaling = scaling;
      Vectors v(mesh, config, letters(4));
      for (int step = 0; step < 3; ++step) {
        v.ddp->zero_grad_buffer();
        {
          const auto scope = v.ddp->no_sync();
          v.backward(100 * ranks);
        }
        v.backward((rank + 1) * ranks); // a mean of whole numbers
        v.ddp->finish_grad_sync();
        v.expect_gradients(scaling == Scaling::sum ? ranks * (100.0 * ranks + sum_of_ranks())
                                                   : 100.0 * ranks + sum_of_ranks());
      }
    }
  });
}

// Case 13: not 10, the sum, not 1.25, divided by the number of elements.
TEST(GradSync, MeanOfRanks) {
  const auto mesh = make_mesh();
  for (const Scaling scaling : {Scaling::mean, Scaling::pre_scale}) {
    Config config = make_config(false);
    config.scaling = scaling;
    Vectors v(mesh, config, {vector_of("a.w", 2)});
    v.backward(rank + 1);
    v.ddp->finish_grad_sync();
    v.expect_gradient("a.w", (ranks + 1) / 2.0);
  }
}

TEST(GradSync, ForcedAllReduceGivesWholeGradients) {
  for (const auto& mesh : {make_mesh(), make_plane()})
    for_all_configs([&](Config config) {
      for (const Scaling scaling : scalings)
        for (const bool is_started : {false, true}) {
          config.scaling = scaling;
          Vectors v(mesh, config, letters(4));
          v.ddp->zero_grad_buffer();
          v.backward((rank + 1) * ranks);
          std::vector<const void*> whole;
          for (const ParameterSpec& spec : v.specs())
            whole.push_back(address_of(v, spec.name));
          if (is_started)
            v.ddp->start_grad_sync();
          v.ddp->finish_grad_sync(true);
          for (const void* gradient : whole)
            EXPECT_EQ(elements_at(gradient, 30, DType::f64), constant(30, reduced(scaling) * ranks));
          v.expect_gradients(reduced(scaling) * ranks);
          v.expect_usable("a forced all-reduce");
        }
    });
}

// One rank has no gradient, so it starts what the others started in the backward pass only at the end.
TEST(GradSync, ForcedAllReduceWhereARankIsLate) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(4));
    for (const bool is_first : {true, false}) {
      v.ddp->zero_grad_buffer();
      for (const char* name : {"d.w", "c.w", "b.w", "a.w"})
        if (rank != ranks - 1 || std::string(name) != "c.w")
          v.contribute(name, 1);
      expect_error_everywhere(Status::INVALID_STATE, [&] { v.ddp->finish_grad_sync(true); },
                              {"rank " + std::to_string(ranks - 1), "'c.w'"});
      v.expect_usable(is_first ? "a late rank in the first step" : "a late rank");
    }
  });
}

TEST(GradSync, StartedByHand) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    Vectors v(mesh, config, letters(4));
    for (int step = 0; step < 2; ++step) {
      v.ddp->zero_grad_buffer();
      v.backward(rank + 1);
      v.ddp->start_grad_sync();
      v.ddp->start_grad_sync(); // nothing is left
      v.ddp->finish_grad_sync();
      v.ddp->finish_grad_sync();
      v.expect_gradients(sum_of_ranks() / ranks);
    }
  });
}

TEST(GradSync, GradientsAreScaledBeforeAndAfter) {
  const auto mesh = make_mesh();
  for_all_configs([&](Config config) {
    for (const DType gradient : {DType::f64, DType::bf16}) {
      config.gradient_dtype = gradient;
      config.scaling = Scaling::sum;
      Vectors v(mesh, config, letters(3));
      v.ddp->zero_grad_buffer();
      {
        const auto scope = v.ddp->no_sync();
        v.backward(1);
      }
      v.ddp->scale_gradients(4);
      v.backward(2);
      v.ddp->finish_grad_sync();
      v.expect_gradients(6 * ranks);
      v.ddp->scale_gradients(0.5);
      v.expect_gradients(3 * ranks);
    }
  });
}

// Nothing is cleared: the caller is told that what stands there does not count.
TEST(GradSync, ZeroTouchesNoMemory) {
  Vectors v(make_mesh(), make_config(false), letters(2));
  EXPECT_EQ(v.contribute("b.w", 3), 0);
  v.contribute("a.w", 3);
  const void* gradient = address_of(v, "a.w");
  v.ddp->finish_grad_sync();
  v.ddp->zero_grad_buffer();
  EXPECT_EQ(elements_at(gradient, 30, DType::f64), constant(30, 3));
  EXPECT_EQ(v.write("a.w", 1), 0);
  EXPECT_EQ(v.write("a.w", 1), 1);
  v.ddp->gradient_ready("a.w");
  v.contribute("b.w", 2);
  v.ddp->finish_grad_sync();
  v.expect_gradients(2);
}

// Many random values: summed in f32, rounded once; a sum of rounded sums would differ.
TEST(GradSync, SumsOf16BitsAreRoundedOnce) {
  constexpr int count = 100000;
  const auto mesh = make_mesh();
  std::mt19937_64 random(fresh_seed("GradSync.SumsOf16BitsAreRoundedOnce"));
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> values(ranks); // [rank], equal on all
  for (auto& of_rank : values)
    for (int i = 0; i < count; ++i)
      of_rank.push_back(bf16_value(round_to_bf16(normal(random))));
  std::vector<double> once(count), twice(count);
  for (int i = 0; i < count; ++i) {
    float sum = 0, rounded_sum = 0;
    for (int r = 0; r < ranks; ++r) {
      sum += static_cast<float>(values[r][i]);
      rounded_sum = static_cast<float>(bf16_value(round_to_bf16(rounded_sum + static_cast<float>(values[r][i]))));
    }
    once[i] = bf16_value(round_to_bf16(sum));
    twice[i] = rounded_sum;
  }
  for (const auto& [shape, sharded] : {std::pair{mesh, false}, {mesh, true}, {make_plane(), true}}) {
    Config config = make_config(sharded);
    config.gradient_dtype = DType::bf16;
    config.scaling = Scaling::sum;
    Vectors v(shape, config, {vector_of("a.w", count, DType::bf16)});
    on_stream(shape->device(), [&values, place = v.ddp->gradient("a.w", DType::bf16)] {
      add_elements(place, values[rank], DType::bf16);
    });
    v.ddp->gradient_ready("a.w");
    v.ddp->finish_grad_sync();
    const buffer::TensorRange own = v.ddp->main_gradient("a.w", DType::f32);
    const std::vector<double> found = elements_at(own.data, own.count, DType::f32);
    int different_from_once = 0, different_from_twice = 0;
    for (std::int64_t k = 0; k < own.count; ++k) {
      different_from_once += found[k] != once[own.offset + k] ? 1 : 0;
      different_from_twice += found[k] != twice[own.offset + k] ? 1 : 0;
    }
    EXPECT_EQ(different_from_once, 0);
    if (ranks > 2) {
      EXPECT_GT(different_from_twice, 0);
    }
  }
}

TEST(GradSync, EmptyAndTinyParameters) {
  const auto mesh = make_mesh();
  for_all_configs([&](Config config) {
    config.bucket_size = 1;
    Vectors v(mesh, config, {vector_of("a.w", 0), {"b.w", {}, DType::f64}, vector_of("c.w", 1), vector_of("d.w", 0)});
    for (int step = 0; step < 2; ++step)
      v.expect_usable("nothing");
  });
}

TEST(GradSync, NothingToTrain) {
  Vectors v(make_mesh(), make_config(true), {frozen(vector_of("a.w", 3))});
  v.ddp->zero_grad_buffer();
  v.ddp->start_grad_sync();
  v.ddp->finish_grad_sync();
  v.ddp->start_param_sync(true, true);
  v.expect_weight("a.w", 1);
  EXPECT_TRUE(v.ddp->named_states().empty());
}

} // namespace
} // namespace ostraka::ddp::test
