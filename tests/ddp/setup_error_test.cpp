// SPDX-License-Identifier: Apache-2.0
// What set-up refuses, and that it can go on afterwards.
#include "vectors.hpp"

namespace ostraka::ddp::test {
namespace {

TEST(Create, RefusesWhatMakesNoSense) {
  const auto mesh = make_mesh();
  const auto with = [](const std::function<void(Config&)>& change) {
    Config config;
    change(config);
    return config;
  };
  const auto scaling = [](int number) { return static_cast<Scaling>(number); };
  const struct {
    Status status;
    Config config;
    std::vector<std::string> parts;
  } mistakes[] = {
      {Status::INVALID_ARGUMENT, with([&](Config& c) { c.scaling = scaling(3); }), {"scaling", "found 3"}},
      {Status::INVALID_ARGUMENT, with([&](Config& c) { c.scaling = scaling(-1); }), {"scaling", "found -1"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.uses = -2; }), {"uses", "-2"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.overlap_param_gather = true; }), {"sharded_optimizer"}},
      {Status::TYPE_MISMATCH, with([](Config& c) { c.main_dtype = DType::bf16; }), {"main_dtype", "bf16"}},
      {Status::TYPE_MISMATCH, with([](Config& c) { c.gradient_dtype = DType::f16; }), {"gradient_dtype", "f16"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.f32_accumulators = {"*"}; }), {"f32_accumulators"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.bucket_size = 0; }), {"bucket_size", "0"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.num_buckets = 0; }), {"num_buckets", "0"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.num_buckets = c.bucket_size.emplace(2); }), {"num_buckets"}},
      {Status::INVALID_ARGUMENT, with([](Config& c) { c.arrangement = Arrangement::layer_wise; }), {"layer_wise"}}};
  for (const auto& mistake : mistakes)
    for (const bool is_everywhere : {true, false}) { // or on the last rank only
      const Config config = is_everywhere || rank == ranks - 1 ? mistake.config : Config{};
      std::string text;
      try {
        DistributedDataParallel::create(mesh, config);
        ADD_FAILURE() << mistake.parts.front();
      } catch (const Error& error) {
        text = error.what();
        EXPECT_STREQ(name(error.status()), name(mistake.status)) << text;
      }
      for (const std::string& part : mistake.parts)
        EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
  expect_error(Status::INVALID_ARGUMENT, [] { DistributedDataParallel::create(nullptr); }, {"mesh is null"});
}

TEST(Create, RanksAgreeOnTheConfiguration) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const std::pair<const char*, std::function<void(Config&)>> differences[] = {
      {"bucket_size (here ", [](Config& c) { c.bucket_size = 7; }},
      {"num_buckets (here ", [](Config& c) { c.num_buckets = 7; }},
      {"disable_bucketing", [](Config& c) { c.disable_bucketing = true; }},
      {"sharded_optimizer", [](Config& c) { c.sharded_optimizer = true; }},
      {"pad_for_bandwidth", [](Config& c) { c.pad_for_bandwidth = true; }},
      {"scaling", [](Config& c) { c.scaling = Scaling::sum; }},
      {"overlap_grad_reduce", [](Config& c) { c.overlap_grad_reduce = false; }},
      {"main_dtype", [](Config& c) { c.main_dtype = DType::f64; }},
      {"gradient_dtype (here ", [](Config& c) { c.gradient_dtype = DType::bf16; }}};
  for (const auto& [part, change] : differences) {
    Config config;
    if (rank == 0)
      change(config);
    expect_error(Status::RANKS_DISAGREE, [&] { DistributedDataParallel::create(mesh, config); },
                 {"ddp: configuration", part});
  }
  Config config = make_config(true);
  config.arrangement = rank == 0 ? Arrangement::layer_wise : Arrangement::packed;
  expect_error(Status::RANKS_DISAGREE, [&] { DistributedDataParallel::create(mesh, config); }, {"arrangement"});
  config = make_config(true);
  config.overlap_param_gather = rank != 0;
  expect_error(Status::RANKS_DISAGREE, [&] { DistributedDataParallel::create(mesh, config); },
               {"overlap_param_gather"});
  config = make_config(false);
  config.gradient_dtype = DType::bf16;
  config.f32_accumulators = {rank == 0 ? "*.a" : "*.b"};
  expect_error(Status::RANKS_DISAGREE, [&] { DistributedDataParallel::create(mesh, config); }, {"f32_accumulators"});
}

TEST(AddParameter, RefusesWhatCannotBe) {
  const auto ddp = DistributedDataParallel::create(make_mesh(), make_config(false));
  ddp->add_parameter(vector_of("a.w", 30));
  const auto expect_refused = [&](Status status, const ParameterSpec& spec, std::initializer_list<std::string> parts) {
    expect_error(
        status, [&] { ddp->add_parameter(spec); }, parts);
  };
  expect_refused(Status::INVALID_ARGUMENT, vector_of("a.w", 30), {"already", "'a.w'"});
  expect_refused(Status::INVALID_ARGUMENT, vector_of("", 30), {"expected a name"});
  expect_refused(Status::INVALID_ARGUMENT, vector_of("a.", 30), {"'a.'"});
  expect_refused(Status::INVALID_ARGUMENT, vector_of("b.w", -1), {"-1"});
  expect_refused(Status::INVALID_ARGUMENT, expert(vector_of("b.w", 3)), {"'b.w'", "expert"});
  for (const DType dtype : {DType::f16, DType::i32, DType::u8})
    expect_refused(Status::TYPE_MISMATCH, vector_of("b.w", 30, dtype), {"'b.w'", name(dtype)});
  const std::pair<const char*, std::function<void()>> early[] = {
      {"set_parameter", [&] { ddp->set_parameter("a.w", nullptr, 0, DType::f64); }},
      {"parameter", [&] { ddp->parameter("a.w", DType::f64); }},
      {"broadcast_params", [&] { ddp->broadcast_params(); }},
      {"gradient", [&] { ddp->gradient("a.w", DType::f64); }},
      {"gradient_dtype", [&] { ddp->gradient_dtype("a.w"); }},
      {"gradient_ready", [&] { ddp->gradient_ready("a.w"); }},
      {"set_uses", [&] { ddp->set_uses("a.w", 1); }},
      {"no_sync", [&] { ddp->begin_no_sync(); }},
      {"start_grad_sync", [&] { ddp->start_grad_sync(); }},
      {"finish_grad_sync", [&] { ddp->finish_grad_sync(); }},
      {"fail_step", [&] { ddp->fail_step("x"); }},
      {"zero_grad_buffer", [&] { ddp->zero_grad_buffer(); }},
      {"scale_gradients", [&] { ddp->scale_gradients(1); }},
      {"main_gradient", [&] { ddp->main_gradient("a.w", DType::f64); }},
      {"offload_grad_buffers", [&] { ddp->offload_grad_buffers(); }},
      {"restore_grad_buffers", [&] { ddp->restore_grad_buffers(); }},
      {"start_param_sync", [&] { ddp->start_param_sync(); }},
      {"pre_forward", [&] { ddp->pre_forward("a"); }},
      {"enable_forward_pre_hook", [&] { ddp->enable_forward_pre_hook(); }},
      {"disable_forward_pre_hook", [&] { ddp->disable_forward_pre_hook(); }},
      {"ensure_ready", [&] { ddp->ensure_ready("a.w"); }},
      {"ready_callback", [&] { ddp->ready_callback("a.w"); }},
      {"reset_param_sync_dispatch_state", [&] { ddp->reset_param_sync_dispatch_state(); }},
      {"free_overlap_buffers", [&] { ddp->free_overlap_buffers(); }},
      {"named_states", [&] { ddp->named_states(); }}};
  for (const auto& [operation, action] : early)
    expect_error(Status::INVALID_STATE, action, {operation, "call finalize first"});
  ddp->finalize();
  expect_error(Status::INVALID_STATE, [&] { ddp->add_parameter(vector_of("b.w", 3)); }, {"'b.w'", "before finalize"});
  expect_error(Status::INVALID_STATE, [&] { ddp->finalize(); }, {"called already"});
  EXPECT_EQ(ddp->memory().num_elements, 30);
}

// Then parameters can still be added, until all ranks have the same.
TEST(Finalize, RanksAgreeOnParameters) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const ParameterSpec usual = vector_of("b.w", 30);
  ParameterSpec embedding = usual;
  embedding.shared_embedding = true;
  for (const ParameterSpec& other : {vector_of("c.w", 30),
                                     vector_of("b.w", 31),
                                     vector_of("b.w", 30, DType::f32),
                                     frozen(usual),
                                     embedding,
                                     {"b.w", {5, 6}, DType::f64}}) {
    const auto ddp = DistributedDataParallel::create(mesh, make_config(false));
    ddp->add_parameter(vector_of("a.w", 30));
    ddp->add_parameter(rank == ranks - 1 ? other : usual);
    expect_error(Status::RANKS_DISAGREE, [&] { ddp->finalize(); },
                 {"finalize", "parameter 2 (here '", rank == ranks - 1 ? other.name : "b.w"});
  }
  const auto ddp = DistributedDataParallel::create(mesh, make_config(false));
  ddp->add_parameter(vector_of("a.w", 30));
  if (rank == 0)
    ddp->add_parameter(usual);
  expect_error(Status::RANKS_DISAGREE, [&] { ddp->finalize(); }, {"finalize: parameters"});
  if (rank != 0)
    ddp->add_parameter(usual);
  ddp->finalize();
  EXPECT_TRUE(ddp->is_finalized());
}

// Also those learn it who have other experts.
TEST(Finalize, ExpertsThatDifferAreToldToAll) {
  if (ranks < 4 || ranks % 2 != 0)
    GTEST_SKIP() << "needs two meshes of experts with two ranks each";
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &group);
  const auto mesh = make_mesh(), experts = mesh::DeviceMesh::create_line(group);
  MPI_Comm_free(&group);
  const auto ddp = DistributedDataParallel::create(mesh, make_config(false), experts);
  ddp->add_parameter(vector_of("a.w", 30));
  ddp->add_parameter(expert(vector_of("b.w", rank == 2 ? 31 : 30)));
  expect_error_everywhere(Status::RANKS_DISAGREE, [&] { ddp->finalize(); }, {"finalize: experts", "parameter 2"});
}

// Only rank 0 has too large an expert. Nothing stays behind, on any rank.
TEST(Finalize, OutOfMemoryIsToldToAll) {
  const auto mesh = make_mesh(), alone = mesh::DeviceMesh::create(MPI_COMM_SELF, {1});
  const auto ddp = DistributedDataParallel::create(mesh, make_config(false), alone);
  ddp->add_parameter(vector_of("a.w", 30));
  ddp->add_parameter(expert(vector_of("b.w", rank == 0 ? std::int64_t{1} << 44 : 100)));
  for (int attempt = 0; attempt < 2; ++attempt) {
    expect_error_everywhere(Status::OUT_OF_MEMORY, [&] { ddp->finalize(); }, {"rank 0", "arena"});
    EXPECT_FALSE(ddp->is_finalized());
    EXPECT_EQ(ddp->memory().parameters + ddp->memory().gradients, 0);
    EXPECT_TRUE(ddp->layouts().empty());
    expect_error(Status::INVALID_STATE, [&] { ddp->parameter("a.w", DType::f64); }, {"finalize"});
  }
}

} // namespace
} // namespace ostraka::ddp::test
