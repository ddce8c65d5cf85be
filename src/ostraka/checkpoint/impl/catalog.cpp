// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/checkpoint/chunks.hpp>
#include <ostraka/checkpoint/impl/catalog.hpp>
#include <ostraka/checkpoint/impl/crc32c.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/layout/report.hpp>

#include <map>
#include <set>

namespace ostraka::checkpoint::impl {

namespace {

using buffer::DBuffer;
using buffer::NamedState;

const buffer::MeshPtr& mesh_of(const Content& content) {
  for (const NamedState& state : content.states)
    if (state.main_weight.is_valid())
      return state.main_weight.mesh();
  for (const Field& field : content.fields)
    if (field.values.is_valid())
      return field.values.mesh();
  fail(Status::INVALID_ARGUMENT, "checkpoint: expected at least one state or field, found none");
}

class Maker {
public:
  Maker(const Content& content, std::string operation)
      : content_(content), operation_(std::move(operation)), mesh_(mesh_of(content)) {}

  Catalog make(bool with_user) {
    for (std::size_t i = 0; i < content_.states.size(); ++i)
      add_weights(static_cast<int>(i));
    for (const auto& [state, indices] : states_by_name())
      for (const int i : indices)
        add_state(state, i);
    for (const Field& field : content_.fields)
      add_buffer(field_group, field.names, field.values, -1);
    if (with_user)
      for (const Extras::Value& value : content_.user.values())
        add_user(value);
    return std::move(catalog_);
  }

private:
  [[noreturn]] void refuse(Status status, const std::string& name, const std::string& what) const {
    fail(status, operation_, ": '", name, "': ", what);
  }

  // Whether these are elements that another entry of this name has brought already.
  bool is_listed(const std::string& group, const std::vector<std::string>& names, const DBuffer& buffer) {
    if (names.empty())
      return false;
    const auto [found, is_new] = listed_.emplace(group + "/" + names.front(), &buffer);
    return !is_new && found->second->is_alias_of(buffer) && found->second->byte_offset() == buffer.byte_offset() &&
           found->second->range() == buffer.range();
  }

  void check(const std::string& group, const std::vector<std::string>& names, const DBuffer& buffer) const {
    const std::string name = group + "/" + (names.empty() ? "" : names.front());
    if (!buffer.is_valid())
      refuse(Status::INVALID_ARGUMENT, name, "its buffer refers to nothing");
    if (static_cast<int>(names.size()) != buffer.layout()->num_tensors())
      refuse(Status::SHAPE_MISMATCH, name,
             "expected a name for each of " + std::to_string(buffer.layout()->num_tensors()) + " tensors, found " +
                 std::to_string(names.size()));
    if (buffer.mesh() != mesh_ && !buffer.mesh()->is_congruent(*mesh_))
      refuse(Status::INVALID_ARGUMENT, name, "is on a mesh of other ranks than '" + first_name() + "'");
    if (!buffer.is_allocated())
      refuse(Status::INVALID_STATE, name, "its storage is released");
  }

  std::string first_name() const {
    return catalog_.sources.empty() ? "the first one" : catalog_.sources.front().tensor.path();
  }

  void add_weights(int i) {
    const NamedState& state = content_.states[i];
    if (is_listed(main_weight_group, state.tensor_names, state.main_weight))
      return;
    if (state.is_updated && state.is_updated())
      refuse(Status::INVALID_STATE, state.tensor_names.front(),
             "was updated while gradients were reduced; call the optimizer's step first");
    add_buffer(main_weight_group, state.tensor_names, state.main_weight, i, &state.other_names);
    catalog_.layout_report += layout::to_text(layout::report(*state.main_weight.layout())) + "\n";
  }

  void add_state(const std::string& name, int i) {
    const NamedState& state = content_.states[i];
    const DBuffer& buffer = state.state.at(name);
    const std::string group = std::string(state_group) + "/" + name;
    if (is_listed(group, state.tensor_names, buffer))
      return;
    check(group, state.tensor_names, buffer);
    if (!(*buffer.layout() == *state.main_weight.layout()) || !(buffer.range() == state.main_weight.range()))
      refuse(Status::SHAPE_MISMATCH, group + "/" + state.tensor_names.front(),
             "expected the layout and the elements of its main weight");
    add_buffer(group, state.tensor_names, buffer, -1, &state.other_names);
  }

  std::map<std::string, std::vector<int>> states_by_name() const {
    std::map<std::string, std::vector<int>> result;
    for (std::size_t i = 0; i < content_.states.size(); ++i)
      for (const auto& [name, buffer] : content_.states[i].state)
        result[name].push_back(static_cast<int>(i));
    return result;
  }

  void add_buffer(const std::string& group, const std::vector<std::string>& names, const DBuffer& buffer, int state,
                  const std::map<std::string, int>* other_names = nullptr) {
    check(group, names, buffer);
    for (int k = 0; k < static_cast<int>(names.size()); ++k) {
      const Chunk part = chunk(buffer, k);
      Source source;
      source.tensor.group = group;
      source.tensor.name = names[k];
      source.tensor.dtype = buffer.dtype();
      source.tensor.shape = part.shape;
      if (other_names != nullptr)
        for (const auto& [other, index] : *other_names)
          if (index == k)
            source.tensor.other_names.push_back(other);
      source.device = buffer.storage()->device();
      source.data = static_cast<std::byte*>(buffer.tensor_range(k).data);
      source.own = part.elements;
      source.written = part.written;
      source.state = state;
      add(std::move(source));
    }
  }

  void add_user(const Extras::Value& value) {
    Source source;
    source.tensor.group = user_group;
    source.tensor.name = value.name;
    source.tensor.dtype = value.dtype;
    source.tensor.shape = value.shape;
    source.tensor.is_text = value.is_text;
    source.data = const_cast<std::byte*>(value.bytes.data()); // read only
    source.own = {0, layout::numel(value.shape)};
    source.written = mesh_->rank() == 0 ? source.own : layout::Range{};
    source.tensor.crc32c = crc32c(value.bytes.data(), value.bytes.size()); // what ranks compare
    add(std::move(source));
  }

  void add(Source source) {
    for (const std::string& name : source.tensor.other_names)
      add_name(source.tensor, name);
    add_name(source.tensor, source.tensor.name);
    catalog_.sources.push_back(std::move(source));
  }

  void add_name(const Tensor& tensor, const std::string& name) {
    if (!names_.insert(tensor.group + "/" + name).second)
      refuse(Status::INVALID_ARGUMENT, tensor.group + "/" + name,
             "two tensors have this name; an optimizer has to be that of the weights it is saved or loaded with");
  }

  const Content& content_;
  std::string operation_;
  const buffer::MeshPtr& mesh_;
  Catalog catalog_;
  std::set<std::string> names_;
  std::map<std::string, const DBuffer*> listed_;
};

std::int64_t hash_of(const Tensor& tensor) {
  Hash hash;
  hash.add(tensor.group).add(tensor.name).add(tensor.dtype).add(tensor.is_text).add(tensor.crc32c);
  for (const std::int64_t extent : tensor.shape)
    hash.add(extent);
  for (const std::string& other : tensor.other_names)
    hash.add(other);
  return hash.value();
}

} // namespace

std::shared_ptr<comm::Communicator> group_of(const Content& content) { return mesh_of(content)->communicators().all; }

Catalog make_catalog(const Content& content, bool with_user, const std::string& operation) {
  return Maker(content, operation).make(with_user);
}

void agree_on_catalog(comm::Communicator& group, const Catalog& catalog, const std::string& path,
                      const std::string& operation) {
  Hash all;
  all.add(path).add(catalog.sources.size());
  for (const Source& source : catalog.sources)
    all.add(hash_of(source.tensor));
  if (comm::are_equal(group, all.value()))
    return;
  comm::agree_on_value(group, Hash().add(path).value(), operation + ": path (here '" + path + "')");
  comm::agree_on_value(group, static_cast<std::int64_t>(catalog.sources.size()),
                       operation + ": number of tensors and values (here " + std::to_string(catalog.sources.size()) +
                           ")");
  for (const Source& source : catalog.sources)
    comm::agree_on_value(group, hash_of(source.tensor),
                         operation + ": '" + source.tensor.path() + "' (here " + name(source.tensor.dtype) +
                             " of shape " + layout::to_string(source.tensor.shape) + ")");
}

} // namespace ostraka::checkpoint::impl
