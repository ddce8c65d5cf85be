// SPDX-License-Identifier: Apache-2.0
// Set-up of a DistributedDataParallel, and its weights outside of steps.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/base/pattern.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/ddp/distributed_data_parallel.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <algorithm>
#include <numeric>

namespace ostraka::ddp {

namespace {

using memory::Kind;

std::vector<comm::Setting> settings_of(const Config& config, bool has_experts) {
  Hash patterns;
  for (const std::string& pattern : config.f32_accumulators)
    patterns.add(pattern);
  return {comm::setting("bucket_size", config.bucket_size.value_or(-1)),
          comm::setting("num_buckets", config.num_buckets.value_or(-1)),
          comm::setting("disable_bucketing", config.disable_bucketing),
          comm::setting("sharded_optimizer", config.sharded_optimizer),
          comm::setting("pad_for_bandwidth", config.pad_for_bandwidth),
          comm::setting("arrangement", static_cast<std::int32_t>(config.arrangement)),
          comm::setting("scaling", static_cast<std::int32_t>(config.scaling)),
          comm::setting("overlap_grad_reduce", config.overlap_grad_reduce),
          comm::setting("overlap_param_gather", config.overlap_param_gather),
          comm::setting("main_dtype", config.main_dtype),
          comm::setting("gradient_dtype", config.gradient_dtype),
          {"f32_accumulators", patterns.value()},
          comm::setting("expert mesh", has_experts)};
}

std::string module_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

// In the order in which a reduction over several axes uses them: the innermost one cuts what the others reduce.
void add_lines(BucketGroup& group, const mesh::Communicators& communicators) {
  const auto& reduce = communicators.reduce;
  group.reduction_lines.push_back(communicators.data);
  group.reduction_lines.push_back(reduce.back());
  group.reduction_lines.insert(group.reduction_lines.end(), reduce.begin(), reduce.end() - 1);
  group.gather_lines.push_back(communicators.gather.back());
}

GroupSizes sizes_of(const Ranks& ranks, bool is_sharded) {
  return {ranks.mesh->size(), is_sharded ? ranks.mesh->axis_size(ranks.mesh->dims() - 1) : 1};
}

} // namespace

std::shared_ptr<DistributedDataParallel> DistributedDataParallel::create(buffer::MeshPtr mesh, Config config,
                                                                         buffer::MeshPtr expert_mesh) {
  runtime::require_initialized("ddp");
  expect(mesh != nullptr, Status::INVALID_ARGUMENT, "ddp: the mesh is null");
  comm::Communicator& all = *mesh->communicators().all;
  comm::together(all, [&] {
    expect(expert_mesh == nullptr || expert_mesh->device() == mesh->device(), Status::INVALID_ARGUMENT,
           "ddp: the expert mesh is on another device than the mesh; make both on one");
    validate(config);
    expect(expert_mesh == nullptr || mesh->size() % expert_mesh->size() == 0, Status::INVALID_ARGUMENT,
           "ddp: the expert mesh has ", expert_mesh == nullptr ? 0 : expert_mesh->size(),
           " ranks, expected a divisor of the ", mesh->size(), " of the mesh");
  });
  comm::agree_on_settings(all, settings_of(config, expert_mesh != nullptr), "ddp: configuration: ");
  return std::shared_ptr<DistributedDataParallel>(
      new DistributedDataParallel(std::move(mesh), std::move(config), std::move(expert_mesh)));
}

DistributedDataParallel::DistributedDataParallel(buffer::MeshPtr mesh, Config config, buffer::MeshPtr expert_mesh) {
  comm::Communicator& all = *mesh->communicators().all;
  const int size = mesh->size();
  dense_ = make_ranks(std::move(mesh), "ddp");
  comm::together(all, [&] { // one node may have too little
    if (expert_mesh != nullptr)
      expert_ = make_ranks(std::move(expert_mesh), "ddp experts");
  });
  comm::together(all, [&] {
    for (const auto& ranks : {dense_, expert_})
      if (ranks != nullptr) {
        ranks->arena = ranks->mesh->make_arena();
        ranks->gradient_arena = ranks->mesh->make_arena();
      }
  });
  for (const auto& ranks : {dense_, expert_})
    if (ranks != nullptr) {
      const double share = static_cast<double>(ranks->mesh->size()) / size; // 1 unless of experts
      ranks->op = config.scaling == Scaling::mean ? layout::ReduceOp::mean : layout::ReduceOp::sum;
      ranks->pre_scale = config.scaling == Scaling::mean        ? share
                         : config.scaling == Scaling::pre_scale ? 1.0 / size
                                                                : 1;
    }
  const auto have_failed = [dense = dense_, expert = expert_] {
    return dense->communicators.have_failed() || (expert != nullptr && expert->communicators.have_failed());
  };
  const runtime::Device device = dense_->mesh->device();
  resources_ = std::make_shared<Resources>(
      Resources{std::move(config), runtime::compute_stream(device), runtime::make_queue(device, "ddp gather"),
                runtime::make_queue(device, "ddp reduce"), std::make_unique<comm::StepStatus>("ddp", have_failed)});
}

std::shared_ptr<Ranks> DistributedDataParallel::make_ranks(buffer::MeshPtr mesh, const std::string& owner) {
  auto communicators = mesh->make_communicators(owner);
  return std::make_shared<Ranks>(Ranks{std::move(mesh), std::move(communicators), nullptr, nullptr});
}

DistributedDataParallel::~DistributedDataParallel() {
  try {
    if (resources_->status->is_usable()) {
      for (const auto& stream : {resources_->gather, resources_->reduce})
        resources_->compute->wait(stream->record());
      resources_->compute->hand_over(); // hosts may carry what is waited for
    }
  } catch (const std::exception&) { // the communicators keep what is in flight; there is nobody left to tell
  }
  for (const auto& ranks : {dense_, expert_})
    if (ranks != nullptr)
      ranks->communicators = {};
}

void DistributedDataParallel::add_parameter(ParameterSpec spec) {
  const std::string& name = spec.name;
  expect(!is_finalized_, Status::INVALID_STATE, "add_parameter('", name, "'): call it before finalize");
  expect(!name.empty() && name.back() != '.', Status::INVALID_ARGUMENT, "add_parameter: expected a name, found '", name,
         "'");
  expect(std::none_of(specs_.begin(), specs_.end(), [&](const auto& other) { return other.name == name; }),
         Status::INVALID_ARGUMENT, "add_parameter: there is a parameter '", name, "' already");
  expect(spec.dtype == DType::f64 || spec.dtype == DType::f32 || spec.dtype == DType::bf16, Status::TYPE_MISMATCH,
         "add_parameter('", name, "'): expected weights of f64, f32 or bf16, found ", ostraka::name(spec.dtype));
  expect(!spec.expert || expert_ != nullptr, Status::INVALID_ARGUMENT, "add_parameter('", name,
         "'): an expert needs the expert mesh that create takes");
  expect(std::all_of(spec.shape.begin(), spec.shape.end(), [](std::int64_t extent) { return extent >= 0; }),
         Status::INVALID_ARGUMENT, "add_parameter('", name, "'): expected extents >= 0, found ",
         layout::to_string(spec.shape));
  specs_.push_back(std::move(spec));
}

std::vector<DType> DistributedDataParallel::gradient_dtypes() const {
  std::vector<DType> dtypes;
  for (const ParameterSpec& spec : specs_)
    dtypes.push_back(gradient_dtype_of(config(), spec.dtype));
  return dtypes;
}

void DistributedDataParallel::finalize(std::optional<std::vector<BufferLayout>> layouts) {
  expect(!is_finalized_, Status::INVALID_STATE, "finalize: it was called already"); // as on all ranks
  resources_->status->communicate([&] {
    check_agreement();
    comm::together(*dense_->communicators.all, [&] {
      plan(std::move(layouts));
      for (const auto& pattern : config().f32_accumulators)
        expect(std::any_of(specs_.begin(), specs_.end(), [&](const auto& spec) { return matches(pattern, spec.name); }),
               Status::INVALID_ARGUMENT, "finalize: no parameter is called '", pattern, "' (f32_accumulators)");
    });
    check_layouts_agree();
    try {
      comm::together(*dense_->communicators.all, [&] {
        make_buckets();
        make_frozen_weights();
      });
    } catch (const Error& error) {
      if (!resources_->status->is_terminal(error))
        undo_buckets();
      throw;
    }
  });
  has_hooks_ = config().overlap_param_gather;
  is_finalized_ = true;
}

// Experts may be called differently on ranks that have others.
void DistributedDataParallel::check_agreement() const {
  std::vector<comm::Setting> all, experts;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const ParameterSpec& spec = specs_[i];
    const std::string what = "parameter " + std::to_string(i + 1) + " (here '" + spec.name + "' " +
                             layout::to_string(spec.shape) + " " + ostraka::name(spec.dtype) +
                             (spec.trainable ? ")" : ", frozen)");
    Hash hash;
    hash.add(spec.name).add(spec.dtype).add(spec.trainable).add(spec.shared_embedding);
    for (const std::int64_t extent : spec.shape)
      hash.add(extent);
    all.push_back({what, spec.expert ? Hash().add(spec.trainable).value() : hash.value()});
    if (spec.expert)
      experts.push_back({what, hash.value()});
  }
  comm::agree_on_settings(*dense_->communicators.all, all, "finalize: parameters, in order: ");
  if (expert_ != nullptr)
    comm::together(*dense_->communicators.all, [&] { // ranks that have other experts learn it, too
      comm::agree_on_settings(*expert_->communicators.all, experts, "finalize: experts, in order: ");
    });
}

void DistributedDataParallel::plan(std::optional<std::vector<BufferLayout>> layouts) {
  BucketOptions options = config();
  options.disable_bucketing = options.disable_bucketing || !config().overlap_grad_reduce;
  const GroupSizes dense = sizes_of(*dense_, options.sharded_optimizer);
  const GroupSizes experts = expert_ != nullptr ? sizes_of(*expert_, options.sharded_optimizer) : GroupSizes{};
  if (layouts)
    validate(*layouts, specs_, gradient_dtypes(), dense, experts);
  layouts_ = layouts ? std::move(*layouts) : plan_buffers(specs_, gradient_dtypes(), options, dense, experts);
}

// Those of experts may differ between ranks that have others.
void DistributedDataParallel::check_layouts_agree() const {
  std::vector<comm::Setting> all, experts;
  for (const BufferLayout& buffer : layouts_) {
    Hash hash;
    hash.add(buffer.shards);
    for (const BucketLayout& bucket : buffer.buckets)
      hash.add(bucket.range.end).add(bucket.parameters.size());
    for (const layout::Range& range : buffer.ranges)
      hash.add(range.begin);
    (buffer.key.expert ? experts : all).push_back({to_string(buffer.key), hash.value()});
  }
  comm::agree_on_settings(*dense_->communicators.all, all, "finalize: layouts: ");
  if (expert_ != nullptr)
    comm::together(*dense_->communicators.all,
                   [&] { comm::agree_on_settings(*expert_->communicators.all, experts, "finalize: layouts: "); });
}

// All or nothing, on all ranks.
void DistributedDataParallel::undo_buckets() {
  gradient_storages_.clear();
  groups_.clear();
  frozen_.clear();
  places_.clear();
  groups_of_module_.clear();
  uses_.reset();
  layouts_.clear();
  // Where ranks share memory itself, nobody allocates before all have given back.
  comm::together(*dense_->communicators.all, [&] {
    for (const auto& ranks : {dense_, expert_})
      if (ranks != nullptr) {
        ranks->arena->trim();
        ranks->gradient_arena->trim();
      }
  });
}

void DistributedDataParallel::make_buckets() {
  std::vector<std::shared_ptr<Bucket>> buckets;
  std::vector<int> order; // [bucket]: the parameter that is used first, whose gradient comes last
  for (const BufferLayout& buffer : layouts_) {
    const auto& ranks = ranks_of(buffer.key.expert);
    const auto storage = [&](const std::shared_ptr<memory::Arena>& arena, DType dtype, Kind kind) {
      return std::make_shared<memory::Storage>(arena, multiply(buffer.size(), size_of(dtype), "ddp: bytes"), kind);
    };
    BufferMemory memory{storage(ranks->arena, buffer.key.parameter, Kind::parameters),
                        storage(ranks->gradient_arena, buffer.key.gradient, Kind::gradients)};
    gradient_storages_.push_back(memory.gradients);
    for (int b = 0; b < static_cast<int>(buffer.buckets.size()); ++b) {
      Contents contents{std::make_shared<layout::GlobalLayout>(layout_of(buffer, b, specs_)),
                        {},
                        buffer.key.parameter,
                        buffer.key.gradient,
                        main_dtype_of(config(), buffer.key.parameter),
                        config().sharded_optimizer};
      order.push_back(static_cast<int>(specs_.size()));
      for (const int position : buffer.buckets[b].parameters) {
        contents.names.push_back(specs_[buffer.parameters[position]].name);
        order.back() = std::min(order.back(), buffer.parameters[position]);
      }
      memory.first = buffer.buckets[b].range.begin;
      // Numbers count inside a buffer: ranks with other experts may have other buckets of experts.
      const std::string name = "bucket " + std::to_string(b) + " of " + to_string(buffer.key) + " ('" +
                               (contents.names.empty() ? "" : contents.names.front()) + "' ...)";
      buckets.push_back(std::make_shared<Bucket>(resources_, ranks, name, std::move(contents), memory));
      for (const auto& own : buckets.back()->own_gradient_storages())
        gradient_storages_.push_back(own);
    }
  }
  make_groups(std::move(buckets), order);
}

// In the order in which buckets become complete in a backward pass.
void DistributedDataParallel::make_groups(std::vector<std::shared_ptr<Bucket>> buckets, const std::vector<int>& first) {
  std::vector<int> order(buckets.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return first[a] > first[b]; });
  const bool is_one_group = config().disable_bucketing || !config().overlap_grad_reduce;
  for (const int b : order) {
    if (groups_.empty() || !is_one_group)
      groups_.emplace_back();
    groups_.back().buckets.push_back(buckets[b]);
  }
  for (BucketGroup& group : groups_)
    if (group.buckets.size() > 1)
      for (const auto& ranks : {dense_, expert_})
        if (ranks != nullptr)
          add_lines(group, ranks->communicators);
  std::map<std::string_view, int> numbers;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    numbers[specs_[i].name] = static_cast<int>(i);
  std::vector<int> group_of(specs_.size(), 0);
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g)
    for (const auto& bucket : groups_[g].buckets)
      for (int t = 0; t < static_cast<int>(bucket->names().size()); ++t) {
        const std::string& name = bucket->names()[t];
        places_[name] = {numbers[name], &bucket->weights(), t, g, bucket.get()};
        group_of[numbers[name]] = g;
      }
  uses_ = std::make_unique<UseCounts>(std::move(group_of), std::max<int>(1, static_cast<int>(groups_.size())),
                                      config().uses);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    groups_of_module_[""];
    for (std::string module = module_of(specs_[i].name); !module.empty(); module = module_of(module))
      groups_of_module_[module]; // modules around others have hooks, too
    if (!specs_[i].trainable) {
      uses_->set_uses(static_cast<int>(i), 0);
      continue;
    }
    std::vector<int>& groups = groups_of_module_[module_of(specs_[i].name)];
    const int group = places_.at(specs_[i].name).group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  }
}

// One after the other, a buffer per type and mesh.
void DistributedDataParallel::make_frozen_weights() {
  for (const bool expert : {false, true})
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      std::vector<layout::Shape> shapes;
      std::vector<int> numbers;
      for (int i = 0; i < static_cast<int>(specs_.size()); ++i)
        if (!specs_[i].trainable && specs_[i].expert == expert && specs_[i].dtype == dtype) {
          shapes.push_back(specs_[i].shape);
          numbers.push_back(i);
        }
      if (numbers.empty())
        continue;
      const auto& ranks = ranks_of(expert);
      const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_flat(std::move(shapes), 1));
      auto storage = std::make_shared<memory::Storage>(
          ranks->arena, multiply(layout->size(), size_of(dtype), "ddp: bytes"), Kind::parameters);
      frozen_.push_back(std::make_unique<Weights>(resources_, ranks,
                                                  "frozen '" + specs_[numbers.front()].name + "' ...", layout,
                                                  std::move(storage), 0, dtype, dtype, false));
      for (int t = 0; t < static_cast<int>(numbers.size()); ++t)
        places_[specs_[numbers[t]].name] = {numbers[t], frozen_.back().get(), t};
    }
}

void DistributedDataParallel::broadcast_params() {
  require_finalized("broadcast_params");
  require_nothing_in_flight_anywhere("broadcast_params");
  resources_->status->communicate([&] {
    gather_all(false);
    for_all_weights([](Weights& weights) { weights.broadcast(); });
    resources_->compute->hand_over();
  });
  has_compared_weights_ = true;
}

void DistributedDataParallel::compare_weights() {
  for_all_weights([&](Weights& weights) {
    if (!comm::are_equal(*weights.ranks().communicators.all, weights.hash()))
      compare_tensors(weights);
  });
}

// Which of them it is that differ.
void DistributedDataParallel::compare_tensors(const Weights& weights) {
  std::string different;
  for (const ParameterSpec& spec : specs_) {
    const Place& place = places_.at(spec.name);
    if (place.weights == &weights && !comm::are_equal(*weights.ranks().communicators.all, weights.hash(place.tensor)))
      different += (different.empty() ? "'" : ", '") + spec.name + "'";
  }
  resources_->status->record(
      Error(Status::RANKS_DISAGREE, "finish_grad_sync: ranks have different " + *weights.name() + ": " + different +
                                        "; set equal ones on all, or call broadcast_params before the first step"));
}

} // namespace ostraka::ddp
