// SPDX-License-Identifier: Apache-2.0
#include <ostraka/plan/dry_run.hpp>
#include <ostraka/plan/impl/run.hpp>

#include <algorithm>
#include <limits>
#include <tuple>

namespace ostraka::plan {

namespace {

using impl::Memory;

/// Ranks that hold the same, but for their parts of what they share with peers.
struct RankClass {
  int node_size;
  int sharing; ///< ranks that share whole weights; 1: none
  auto operator<=>(const RankClass&) const = default;
};

/// What a rank of a class went through.
struct Simulation {
  int rank;
  std::unique_ptr<impl::Network> network;
  std::unique_ptr<impl::Recorder> recorder;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<impl::Shape> shape;
  std::unique_ptr<impl::Run> run;
};

// The members from whose sums those of a node are made.
constexpr std::array memory_members{&fsdp::MemoryReport::parameters,      &fsdp::MemoryReport::gradients,
                                    &fsdp::MemoryReport::optimizer_state, &fsdp::MemoryReport::transient,
                                    &fsdp::MemoryReport::transient_peak,  &fsdp::MemoryReport::reserved};
constexpr std::array bytes_members{&Bytes::model_weights, &Bytes::main_weights, &Bytes::main_gradients,
                                   &Bytes::addends,       &Bytes::moments,      &Bytes::slots_peak,
                                   &Bytes::gathered_peak, &Bytes::scratch_peak, &Bytes::transient_peak,
                                   &Bytes::shared_memory, &Bytes::total,        &Bytes::peak};

template <class Values, class Members>
void add(Values& sum, const Values& values, const Members& members) {
  for (const auto member : members)
    sum.*member += values.*member;
}

class DryRun {
public:
  explicit DryRun(const Request& request)
      : request_(request), topology_(request),
        placements_(fsdp::placements_of(request.config, static_cast<int>(request.mesh.size()))),
        rests_whole_(topology_.shares_nodes() && topology_.nodes_hold_all_parts(placements_.parameter)) {
    placements_ = fsdp::placements_where(rests_whole_, std::move(placements_));
    model_ = std::make_unique<impl::Model>(request, placements_);
    classify();
  }

  Report report() {
    const Simulation& chosen = choose();
    Report report;
    report.recipe = request_.config.recipe;
    for (const Module& module : model_->modules)
      report.modules.push_back(module.name);
    report.rank = chosen.rank;
    report.node = topology_.node(chosen.rank);
    report.node_ranks = topology_.node_size(chosen.rank);
    report.memory = memory_of(chosen.rank);
    report.bytes = bytes_of(chosen.rank);
    report.node_memory.num_elements = model_->elements;
    for (const int rank : topology_.ranks_of(report.node)) {
      add(report.node_memory, memory_of(rank), memory_members);
      add(report.node_bytes, bytes_of(rank), bytes_members);
    }
    report.elements = model_->elements;
    report.padding_elements = model_->padding;
    const auto elements = static_cast<double>(std::max<std::int64_t>(model_->elements, 1));
    report.bytes_per_parameter = static_cast<double>(report.bytes.total) / elements;
    report.formula_bytes_per_parameter = formula(chosen) / elements;
    report.gradient_slots = chosen.memory->ring.count();
    add_traffic(report, chosen);
    add_times(report, *chosen.recorder);
    return report;
  }

private:
  // --- ranks

  RankClass class_of(int rank) const { return classes_[static_cast<std::size_t>(rank)]; }

  // Gathers of ranks on a node that stand on one line of the innermost axis go into memory that they share.
  void classify() {
    const bool gathers_shared =
        !rests_whole_ && topology_.shares_nodes() && fsdp::shares_gathers(placements_.parameter);
    const int line = topology_.sizes().back();
    std::map<std::pair<int, int>, int> on_line; // ranks of a node and a line
    for (int rank = 0; gathers_shared && rank < topology_.ranks(); ++rank)
      ++on_line[{topology_.node(rank), rank / line}];
    for (int rank = 0; rank < topology_.ranks(); ++rank) {
      int sharing = 1;
      if (topology_.shares_memory(rank) && rests_whole_)
        sharing = topology_.node_size(rank);
      else if (topology_.shares_memory(rank) && gathers_shared)
        sharing = on_line[{topology_.node(rank), rank / line}];
      classes_.push_back({topology_.node_size(rank), sharing});
    }
  }

  std::vector<int> sharing(int rank) const {
    return rests_whole_ ? topology_.ranks_of(topology_.node(rank))
                        : topology_.peers_on_line(rank, topology_.dims() - 1);
  }

  // Its number among those that share whole weights with it.
  int number(int rank) const {
    const std::vector<int> peers = sharing(rank);
    return static_cast<int>(std::find(peers.begin(), peers.end(), rank) - peers.begin());
  }

  // --- simulations

  const Simulation& simulation_of(int rank) {
    const auto [place, is_new] = simulations_.try_emplace(class_of(rank));
    if (is_new)
      place->second = simulate(rank);
    return place->second;
  }

  Simulation simulate(int rank) {
    Simulation result;
    result.rank = rank;
    result.network = std::make_unique<impl::Network>(request_, topology_, rank);
    result.recorder = std::make_unique<impl::Recorder>(*result.network, request_.config.unified_stream);
    const int node_size = topology_.node_size(rank);
    const bool is_one_node = topology_.shares_nodes() && node_size == topology_.ranks();
    const std::int64_t cache = request_.cache_bytes.value_or(std::numeric_limits<std::int64_t>::max());
    const std::int64_t most = fsdp::most_slot_bytes(request_.config, is_one_node, node_size, cache);
    result.memory = std::make_unique<Memory>(fsdp::SlotRing(request_.config.gradient_slots, most));
    if (class_of(rank).sharing > 1)
      result.memory->shared.emplace(sharing(rank));
    result.shape = std::make_unique<impl::Shape>(impl::Shape{topology_, topology_.coordinates(rank), placements_,
                                                             request_.config.reduction, rests_whole_,
                                                             request_.fuse_with_reduction});
    result.run = std::make_unique<impl::Run>(request_, *model_, *result.shape, *result.memory, *result.recorder);
    result.run->step(); // makes state, and records orders
    result.recorder->start();
    result.run->step();
    return result;
  }

  // The rank that was asked for, or one of those that hold most.
  const Simulation& choose() {
    if (request_.rank)
      return simulation_of(*request_.rank);
    const Simulation* most = nullptr;
    for (int rank = 0; rank < topology_.ranks(); ++rank)
      if (!simulations_.contains(class_of(rank)))
        if (const Simulation& found = simulation_of(rank);
            most == nullptr || bytes_of(rank).peak > bytes_of(most->rank).peak)
          most = &found;
    return *most;
  }

  // --- memory

  fsdp::MemoryReport memory_of(int rank) {
    const Memory& memory = *simulation_of(rank).memory;
    const auto in_use = [&](memory::Kind kind) { return memory.arena->usage(kind).in_use; };
    fsdp::MemoryReport report;
    report.parameters = in_use(memory::Kind::parameters);
    report.gradients = in_use(memory::Kind::gradients);
    report.optimizer_state = in_use(memory::Kind::optimizer_state);
    report.transient = in_use(memory::Kind::transient);
    report.transient_peak = memory.arena->usage(memory::Kind::transient).peak;
    report.reserved = memory.arena->reserved();
    report.num_elements = model_->elements;
    if (!memory.shared)
      return report;
    const int own = number(rank);
    const memory::Usage& gathered = memory.shared->arena->usage(memory::Kind::transient);
    report.transient += memory.shared->part_of(gathered.in_use, own).size();
    report.transient_peak += memory.shared->part_of(gathered.peak, own).size();
    report.reserved += memory.shared->shares[static_cast<std::size_t>(own)].taken();
    report.parameters += region_bytes(*memory.shared, own);
    return report;
  }

  static std::int64_t region_bytes(const impl::SharedMemory& shared, int own) {
    std::int64_t bytes = 0;
    for (const std::int64_t region : shared.region_bytes)
      bytes += shared.part_of(region, own).size();
    return bytes;
  }

  Bytes bytes_of(int rank) {
    const Memory& memory = *simulation_of(rank).memory;
    Bytes bytes;
    bytes.model_weights = memory.resting.in_use;
    bytes.main_weights = memory.main.in_use;
    bytes.main_gradients = memory.gradients.in_use;
    bytes.addends = memory.addends.in_use;
    bytes.moments = memory.moments.in_use;
    bytes.slots_peak = memory.slot_meter.peak;
    bytes.gathered_peak = memory.gathered.peak;
    bytes.scratch_peak = memory.scratch_meter.peak;
    bytes.transient_peak = memory_of(rank).transient_peak;
    if (topology_.shares_memory(rank))
      bytes.shared_memory = memory.arena->committed();
    if (memory.shared) {
      const int own = number(rank);
      bytes.model_weights += region_bytes(*memory.shared, own);
      bytes.gathered_peak += memory.shared->part_of(memory.gathered_shared.peak, own).size();
      bytes.shared_memory += memory.shared->shares[static_cast<std::size_t>(own)].taken();
    }
    bytes.total = bytes.model_weights + bytes.main_weights + bytes.main_gradients + bytes.addends + bytes.moments;
    bytes.peak = bytes.total + bytes.transient_peak;
    return bytes;
  }

  std::int64_t parts(const layout::Placements& placements) const {
    std::int64_t count = 1;
    for (std::size_t axis = 0; axis < placements.size(); ++axis)
      count *= placements[axis].is_shard() ? topology_.sizes()[axis] : 1;
    return count;
  }

  // Bytes at rest without padding.
  double formula(const Simulation& chosen) const {
    const auto at_rest = [&](const fsdp::GroupPlan& group) {
      const double kept =
          rests_whole_ ? class_of(chosen.rank).sharing : static_cast<double>(parts(placements_.parameter));
      const auto main = static_cast<double>(size_of(group.types.main));
      const auto updated = static_cast<double>(parts(placements_.optimizer));
      double bytes = static_cast<double>(size_of(group.types.storage)) / kept;
      bytes += group.types.casts_main() ? main / updated : 0;
      if (group.is_trainable)
        bytes += main / static_cast<double>(parts(placements_.gradient)) +
                 impl::num_states(request_.optimizer) * main / updated;
      return bytes * static_cast<double>(group.layout->payload());
    };
    double bytes = 0;
    for (std::size_t unit = 0; unit < request_.units.size(); ++unit)
      for (const fsdp::GroupPlan& group : model_->groups[unit])
        bytes += request_.units[unit].count * at_rest(group);
    return bytes;
  }

  // --- traffic and times

  void add_traffic(Report& report, const Simulation& chosen) const {
    for (int axis = 0; axis < topology_.dims(); ++axis) {
      const Axis& of = request_.mesh[static_cast<std::size_t>(axis)];
      report.axes.push_back({of.name, of.size, chosen.network->carrier(axis), {}, 0, 0, 0});
    }
    report.calls = chosen.recorder->calls();
    for (const Call& call : report.calls) {
      if (call.axis < 0 || report.axes[static_cast<std::size_t>(call.axis)].size == 1)
        continue;
      AxisTraffic& axis = report.axes[static_cast<std::size_t>(call.axis)];
      ++axis.collectives[static_cast<std::size_t>(call.kind)];
      axis.sent += call.sent;
      axis.received += call.received;
      axis.moved += call.count * size_of(call.dtype);
    }
  }

  static void add_times(Report& report, const impl::Recorder& recorder) {
    report.step_s = recorder.now(impl::Queue::compute) - recorder.begin();
    report.arithmetic_s = recorder.arithmetic();
    report.exposed_s = std::max(report.step_s - report.arithmetic_s, 0.0);
    report.spans = recorder.spans();
    for (Span& span : report.spans) {
      span.begin_s -= recorder.begin();
      span.end_s -= recorder.begin();
    }
    std::stable_sort(report.spans.begin(), report.spans.end(),
                     [](const Span& a, const Span& b) { return a.begin_s < b.begin_s; });
  }

  const Request& request_;
  impl::Topology topology_;
  fsdp::RecipePlacements placements_;
  bool rests_whole_;
  std::unique_ptr<impl::Model> model_;
  std::vector<RankClass> classes_; ///< [rank]
  std::map<RankClass, Simulation> simulations_;
};

} // namespace

Report dry_run(const Request& request) {
  validate(request);
  return DryRun(request).report();
}

} // namespace ostraka::plan
