// SPDX-License-Identifier: Apache-2.0
// What shows by messages of MPI alone, on memory of hosts.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

/// Reductions that MPI was asked for so far.
int started() { return mpi_calls.of("MPI_Iallreduce") + mpi_calls.of("MPI_Ireduce_scatter_block"); }

// Spec 6.6: ones stay ones; where the optimizer is sharded, the parts of other ranks keep what was sent, 1/dp.
TEST(GradSync, PartsOfOtherRanksKeepWhatWasSent) {
  if (!is_mpi())
    GTEST_SKIP() << "reductions in shared memory may write anywhere";
  const auto mesh = make_mesh();
  const double ones = ranks; // so that a part of it is exact
  for_all_configs([&](Config config) {
    config.scaling = Scaling::pre_scale;
    Vectors v(mesh, config, letters(2, 500));
    v.ddp->zero_grad_buffer();
    v.backward(ones);
    const auto* whole = static_cast<const double*>(address_of(v, "a.w"));
    v.ddp->finish_grad_sync();
    const buffer::TensorRange own = v.ddp->main_gradient("a.w", DType::f64);
    EXPECT_EQ(elements(own.data, own.count, DType::f64), constant(own.count, ones));
    for (int k = 0; k < 500; ++k) {
      const bool is_own = k >= own.offset && k < own.offset + own.count;
      ASSERT_EQ(whole[k], is_own ? ones : 1.0) << k;
    }
    v.ddp->zero_grad_buffer();
    v.backward(ones);
    v.ddp->finish_grad_sync(true);
    EXPECT_EQ(elements(whole, 500, DType::f64), constant(500, ones));
  });
}

TEST(NoSync, NothingIsReduced) {
  if (!is_mpi() || ranks == 1)
    GTEST_SKIP() << "counts what MPI is asked for";
  const auto mesh = make_unchecked_mesh();
  for (const bool sharded : {false, true}) {
    Vectors v(mesh, make_config(sharded), letters(4));
    mpi_calls = {};
    {
      const auto scope = v.ddp->no_sync();
      v.backward(1);
      v.backward(1);
    }
    EXPECT_EQ(started(), 0);
    v.backward(1);
    EXPECT_GT(started(), 0);
    v.ddp->finish_grad_sync();
    v.expect_gradients(3);
  }
}

// Spec 6.6: no collective, and weights are whole at once.
TEST(ParamSync, OneShardGathersNothing) {
  if (!is_mpi())
    GTEST_SKIP() << "counts what MPI is asked for";
  Lowered v(make_unchecked_mesh({ranks, 1}), make_config(true));
  v.step();
  mpi_calls = {};
  v.ddp->start_param_sync(true, true);
  v.ddp->reset_param_sync_dispatch_state();
  v.ddp->pre_forward("h");
  v.expect_all_current();
  EXPECT_TRUE(mpi_calls.number.empty());
  v.step();
  if (ranks == 1) {
    EXPECT_TRUE(mpi_calls.number.empty());
  }
  EXPECT_EQ(mpi_calls.of("MPI_Iallgather") + mpi_calls.of("MPI_Ireduce_scatter_block"), 0);
}

} // namespace
} // namespace ostraka::ddp::test
