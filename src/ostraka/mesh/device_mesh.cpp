// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/base/version.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/mesh/sharing.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/lifetime.hpp>
#include <ostraka/runtime/trace.hpp>

#include <algorithm>
#include <limits>

namespace ostraka::mesh {

namespace {

void check_arguments(int size, const std::vector<int>& sizes, const std::vector<std::string>& names) {
  expect(!sizes.empty(), Status::INVALID_ARGUMENT, "mesh: expected at least one axis, found none");
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    expect(sizes[axis] >= 1, Status::INVALID_ARGUMENT, "mesh: expected a size >= 1 on axis ", axis, ", found ",
           sizes[axis]);
    product = multiply(product, sizes[axis], "mesh: product of the axis sizes");
  }
  expect(product == size, Status::INVALID_ARGUMENT, "mesh: the axis sizes multiply to ", product,
         ", expected the size of the communicator, ", size);
  expect(names.size() == sizes.size(), Status::INVALID_ARGUMENT, "mesh: expected ", sizes.size(), " axis names, found ",
         names.size());
  for (std::size_t axis = 0; axis < names.size(); ++axis) {
    expect(!names[axis].empty(), Status::INVALID_ARGUMENT, "mesh: the name of axis ", axis, " is empty");
    expect(std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(axis), names[axis]) ==
               names.begin() + static_cast<std::ptrdiff_t>(axis),
           Status::INVALID_ARGUMENT, "mesh: two axes are named '", names[axis], "'");
  }
}

void require_group(MPI_Comm group) {
  require_mpi("mesh");
  runtime::require_initialized("mesh");
  expect(group != MPI_COMM_NULL, Status::INVALID_ARGUMENT, "mesh: the communicator is MPI_COMM_NULL");
}

} // namespace

std::vector<std::string> Communicators::failures() const {
  std::vector<std::string> causes;
  const auto add = [&](const std::shared_ptr<comm::Communicator>& one) {
    if (one != nullptr && !one->failure().empty() &&
        std::find(causes.begin(), causes.end(), one->failure()) == causes.end())
      causes.push_back(one->failure());
  };
  add(all);
  add(data);
  for (const auto* list : {&gather, &reduce})
    std::for_each(list->begin(), list->end(), add);
  return causes;
}

bool Communicators::have_failed() const {
  const auto has_failed = [](const auto& communicator) { return !communicator->failure().empty(); };
  return (all != nullptr && has_failed(all)) || (data != nullptr && has_failed(data)) ||
         std::any_of(gather.begin(), gather.end(), has_failed) || std::any_of(reduce.begin(), reduce.end(), has_failed);
}

void require_mpi(const char* operation) {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  expect(initialized != 0, Status::INVALID_STATE, operation, ": MPI is not initialised (call MPI_Init first)");
  expect(finalized == 0, Status::INVALID_STATE, operation, ": MPI is finalised already");
}

std::shared_ptr<const DeviceMesh> DeviceMesh::create_line(MPI_Comm group, std::vector<std::string> names,
                                                          std::optional<runtime::Device> device) {
  require_group(group);
  int size = 0;
  comm::check_mpi(MPI_Comm_size(group, &size), "mesh: MPI_Comm_size");
  return create(group, {size}, std::move(names), device);
}

std::shared_ptr<const DeviceMesh> DeviceMesh::create(MPI_Comm group, std::vector<int> sizes,
                                                     std::vector<std::string> names,
                                                     std::optional<runtime::Device> device) {
  require_group(group);
  Settings settings = Settings::from_environment();
  settings.device = device.value_or(settings.device);
  if (names.empty())
    for (std::size_t axis = 0; axis < sizes.size(); ++axis)
      names.push_back("axis" + std::to_string(axis));
  MPI_Comm duplicate = MPI_COMM_NULL;
  comm::check_mpi(MPI_Comm_dup(group, &duplicate), "mesh: MPI_Comm_dup");
  return std::shared_ptr<const DeviceMesh>(new DeviceMesh(duplicate, std::move(sizes), std::move(names), settings));
}

DeviceMesh::DeviceMesh(MPI_Comm group, std::vector<int> sizes, std::vector<std::string> names, Settings settings)
    : group_(group), sizes_(std::move(sizes)), names_(std::move(names)), settings_(settings) {
  try {
    connect();
  } catch (...) {
    MPI_Comm_free(&group_);
    throw;
  }
  if (rank_ == 0)
    log::info("version " OSTRAKA_VERSION_STRING ", " + describe());
}

void DeviceMesh::connect() {
  MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(group_, &rank_);
  MPI_Comm_size(group_, &size_);
  int world_rank = 0; // two meshes of a program must not write one file
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  runtime::trace::set_rank(world_rank);
  MPI_Comm for_all = MPI_COMM_NULL;
  comm::check_mpi(MPI_Comm_dup(group_, &for_all), "mesh: MPI_Comm_dup");
  // The ranks have not agreed on settings yet, so this communicator uses none of them.
  communicators_.all = comm::make_mpi_communicator(for_all, "mesh", {false, std::numeric_limits<int>::max()});
  comm::together(*communicators_.all, [&] {
    check_arguments(size_, sizes_, names_);
    const auto device = static_cast<std::int32_t>(settings_.device);
    expect(runtime::is_device(device), Status::INVALID_ARGUMENT, "mesh: expected device 0 (host) or 1 (cuda), found ",
           device);
    runtime::compute_stream(settings_.device); // finds out whether there is one that works
  });
  Hash hash;
  for (std::size_t axis = 0; axis < sizes_.size(); ++axis)
    hash.add(sizes_[axis]).add(names_[axis]);
  comm::agree_on_value(*communicators_.all, hash.value(), "mesh: axis sizes and names");
  comm::agree_on_value(*communicators_.all, settings_.hash(),
                       "mesh: the device, OSTRAKA_BACKEND, OSTRAKA_RANKS_PER_NODE, OSTRAKA_CHECK, OSTRAKA_COUNT_LIMIT, "
                       "OSTRAKA_NCCL_SPLIT");
  coordinates_ = layout::coordinates_of(rank_, sizes_);
  home_ = make_home(group_, settings_);
  int shares = home_.shares_memory ? 1 : 0;
  comm::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX, group_), "mesh: nodes");
  shares_nodes_ = shares != 0;
  communicators_ = make_communicators("mesh");
}

std::string DeviceMesh::describe() const {
  std::string text = "mesh of " + std::to_string(size_) + " ranks:";
  for (int axis = 0; axis < dims(); ++axis)
    text += " " + names_[axis] + " " + std::to_string(sizes_[axis]);
  if (device() != runtime::Device::host)
    text += ", on " + std::string(runtime::name(device()));
  return text;
}

DeviceMesh::~DeviceMesh() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0)
    MPI_Comm_free(&group_);
}

bool DeviceMesh::is_congruent(const DeviceMesh& other) const {
  int result = MPI_UNEQUAL;
  MPI_Comm_compare(group_, other.group_, &result);
  return result == MPI_IDENT || result == MPI_CONGRUENT;
}

std::shared_ptr<comm::SharedMemory> DeviceMesh::make_shared_memory() const {
  return home_.shares_memory ? std::make_shared<comm::SharedMemory>(home_.node->ranks()) : nullptr;
}

std::shared_ptr<comm::SharedMemory> DeviceMesh::make_shared_memory(int axis) const {
  if (!home_.shares_memory)
    return nullptr;
  MPI_Comm peers = MPI_COMM_NULL;
  comm::check_mpi(MPI_Comm_split(home_.node->ranks(), line(axis), coordinate(axis), &peers), "mesh: MPI_Comm_split");
  int size = 0;
  MPI_Comm_size(peers, &size);
  std::shared_ptr<comm::SharedMemory> memory;
  try {
    if (size > 1)
      memory = std::make_shared<comm::SharedMemory>(peers);
  } catch (...) {
    MPI_Comm_free(&peers);
    throw;
  }
  MPI_Comm_free(&peers);
  return memory;
}

bool DeviceMesh::nodes_hold_all_parts(const layout::Placements& placements) const {
  const layout::Part own = layout::part_of(placements, position());
  std::vector<std::int64_t> parts{own.index};
  if (home_.shares_memory) {
    parts.resize(static_cast<std::size_t>(home_.node->size()));
    comm::check_mpi(MPI_Allgather(&own.index, 1, MPI_INT64_T, parts.data(), 1, MPI_INT64_T, home_.node->ranks()),
                    "mesh: parts");
  }
  int holds_all = are_all_parts(std::move(parts), own.count) ? 1 : 0;
  comm::check_mpi(MPI_Allreduce(MPI_IN_PLACE, &holds_all, 1, MPI_INT, MPI_MIN, group_), "mesh: parts of nodes");
  return holds_all != 0;
}

// The rank that stands at coordinate 0 of this rank's line.
int DeviceMesh::line(int axis) const {
  int stride = 1;
  for (int inner = dims() - 1; inner > axis; --inner)
    stride *= sizes_[inner];
  return rank_ - coordinate(axis) * stride;
}

void DeviceMesh::require_axis(int axis) const {
  expect(axis >= 0 && axis < dims(), Status::INVALID_ARGUMENT, "mesh: expected an axis from 0 to ", dims() - 1,
         ", found ", axis);
}

int DeviceMesh::axis(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    std::string known;
    for (const std::string& candidate : names_)
      known += (known.empty() ? "" : ", ") + candidate;
    fail(Status::INVALID_ARGUMENT, "mesh: no axis is named '", name, "'; the axes are ", known);
  }
  return static_cast<int>(found - names_.begin());
}

int DeviceMesh::axis_size(int axis) const {
  require_axis(axis);
  return sizes_[axis];
}

int DeviceMesh::coordinate(int axis) const {
  require_axis(axis);
  return coordinates_[axis];
}

const std::string& DeviceMesh::axis_name(int axis) const {
  require_axis(axis);
  return names_[axis];
}

Communicators DeviceMesh::make_communicators(const std::string& owner) const {
  Communicators result;
  MPI_Comm all = MPI_COMM_NULL;
  comm::check_mpi(MPI_Comm_dup(group_, &all), "mesh: MPI_Comm_dup");
  if (device() == runtime::Device::host) {
    result.all = make_communicator(all, owner, home_, settings_);
    result.data = result.all;
  } else {
    MPI_Comm data = MPI_COMM_NULL;
    comm::check_mpi(MPI_Comm_dup(group_, &data), "mesh: MPI_Comm_dup");
    result.all = comm::make_mpi_communicator(all, owner, settings_.mpi);
    result.data = make_communicator(data, owner + " data", home_, settings_);
  }
  for (int axis = 0; axis < dims(); ++axis)
    for (auto [purpose, list] : {std::pair{"gather", &result.gather}, std::pair{"reduce", &result.reduce}}) {
      MPI_Comm peers = MPI_COMM_NULL;
      comm::check_mpi(MPI_Comm_split(group_, line(axis), coordinates_[axis], &peers), "mesh: MPI_Comm_split");
      list->push_back(make_communicator(peers, owner + " " + names_[axis] + " " + purpose, home_, settings_,
                                        *result.data, line(axis)));
    }
  return result;
}

} // namespace ostraka::mesh
