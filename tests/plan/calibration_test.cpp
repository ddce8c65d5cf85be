// SPDX-License-Identifier: Apache-2.0
// Fits, interpolations and what measured collectives make of a step, against numbers worked out by hand.
#include <ostraka/base/error.hpp>
#include <ostraka/plan/calibration.hpp>
#include <ostraka/plan/dry_run.hpp>

#include <gtest/gtest.h>

using namespace ostraka;
using namespace ostraka::plan;

namespace {

TEST(Calibration, FindsALineThatIsThere) {
  std::vector<Timing> timings;
  for (const std::int64_t bytes : {1024, 65536, 1048576, 67108864})
    timings.push_back({bytes, 3e-6 + static_cast<double>(bytes) / 2e9});
  const Link link = fit(timings);
  EXPECT_NEAR(link.latency_s, 3e-6, 1e-15);
  EXPECT_NEAR(link.bandwidth, 2e9, 1);
}

// Relative errors: small operations weigh as much as large ones. Of t = (1, 2, 8) at x = (1, 2, 4) the weights are 1,
// 1/4 and 1/64; the best line begins below 0.
TEST(Calibration, WeighsRelativeErrors) {
  // The best line through 0: the slope is sum (x / t) / sum (x / t)^2 = (1 + 1 + 1/2) / (1 + 1 + 1/4).
  const std::vector<Timing> timings{{1, 1}, {2, 2}, {4, 8}};
  const Link link = fit(timings);
  EXPECT_EQ(link.latency_s, 0);
  EXPECT_NEAR(1 / link.bandwidth, 2.5 / 2.25, 1e-12);
}

TEST(Calibration, NeedsTwoSizesThatTakeLonger) {
  const auto refuses = [](const std::vector<Timing>& timings, const char* words) {
    try {
      fit(timings);
      FAIL() << "expected an error with '" << words << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::INVALID_ARGUMENT);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuses({}, "two sizes");
  refuses({{8, 1.0}}, "two sizes");
  refuses({{8, 1.0}, {8, 2.0}}, "two sizes");
  refuses({{8, 2.0}, {16, 1.0}}, "longer");
  refuses({{0, 2.0}, {16, 1.0}}, "bytes > 0");
  refuses({{8, 0.0}, {16, 1.0}}, "seconds > 0");
}

// 100 bytes in 1 s, 10,000 in 1,000 s: a hundredfold of bytes takes a thousandfold, so 1,000 take 10^1.5.
TEST(Calibration, InterpolatesPowers) {
  const std::vector<Timing> timings{{100, 1}, {10000, 1000}};
  EXPECT_EQ(interpolate(timings, 100), 1);
  EXPECT_NEAR(interpolate(timings, 1000), 31.622776601683793, 1e-9);
  EXPECT_NEAR(interpolate(timings, 10000), 1000, 1e-9);
  EXPECT_EQ(interpolate(timings, 7), 1);                // not faster than the smallest
  EXPECT_NEAR(interpolate(timings, 20000), 2000, 1e-9); // in proportion
  EXPECT_EQ(interpolate(timings, 0), 0);
  EXPECT_EQ(interpolate({}, 100), 0);
}

// Measured on 2 ranks, where one sends half of the whole; on 4 ranks it sends three quarters.
TEST(Calibration, CountsWhatOneRankSends) {
  Link link;
  link.measured.ranks = 2;
  link.measured.allgather = {{100, 1}, {200, 2}};
  link.measured.reduce_scatter = {{100, 5}, {200, 10}};
  EXPECT_NEAR(*measured_seconds(link, Collective::allgather, 2, 150), 1.5, 1e-12);
  EXPECT_NEAR(*measured_seconds(link, Collective::reduce_scatter, 2, 150), 7.5, 1e-12);
  EXPECT_NEAR(*measured_seconds(link, Collective::allgather, 4, 100), 1.5, 1e-12);
  EXPECT_FALSE(measured_seconds(link, Collective::allreduce, 2, 100));
  EXPECT_FALSE(measured_seconds(link, Collective::agreement, 2, 100));
  EXPECT_FALSE(measured_seconds(link, Collective::allgather, 1, 100));
  EXPECT_FALSE(measured_seconds({}, Collective::allgather, 2, 100));
}

// Two layers on two ranks, 1 s forward and 1 s backward each; a gather takes 0.25 s, a reduce-scatter 0.5 s.
Request two_layers(Backend backend) {
  Request request;
  request.units = {{"layer", 2, {{"weight", {1024}, DType::f32}}, 1, 1}};
  request.mesh = {{"ranks", 2}};
  request.backend = backend;
  request.optimizer = Optimizer::none;
  request.machine.network = {0, 1e30, {2, {{1, 0.25}, {4096, 0.25}}, {{1, 0.5}, {4096, 0.5}}, {}}};
  request.machine.memory_bandwidth = 1e30;
  return request;
}

// Four gathers and two reductions, all by the core that computes.
TEST(Overlap, HostsHideNothing) {
  const Report report = dry_run(two_layers(Backend::mpi));
  EXPECT_NEAR(report.step_s, 4 + 4 * 0.25 + 2 * 0.5, 1e-9);
  EXPECT_NEAR(report.exposed_s, 2, 1e-9);
}

// The first gather of each pass and the last reduction are exposed.
TEST(Overlap, GpusHideWhatHasTime) {
  EXPECT_NEAR(dry_run(two_layers(Backend::nccl)).step_s, 4 + 2 * 0.25 + 0.5, 1e-9);
  Request request = two_layers(Backend::mpi);
  request.machine.overlap = 1;
  EXPECT_NEAR(dry_run(request).step_s, 4 + 2 * 0.25 + 0.5, 1e-9);
}

TEST(Overlap, IsAShare) {
  Request request = two_layers(Backend::mpi);
  for (const double wrong : {-0.1, 1.1}) {
    request.machine.overlap = wrong;
    EXPECT_THROW(dry_run(request), Error);
  }
}

// All ranks on one node: gathers are looks at clocks, reductions as measured there.
TEST(Overlap, NodesReduceAsMeasured) {
  Request request = two_layers(Backend::node);
  request.machine.node = {0, 1e30, {2, {{1, 9}}, {{1, 0.5}, {4096, 0.5}}, {}}};
  EXPECT_NEAR(dry_run(request).step_s, 4 + 2 * 0.5, 1e-9);
}

} // namespace
