// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/impl/crc32c.hpp>
#include <ostraka/checkpoint/impl/file.hpp>
#include <ostraka/checkpoint/impl/load_plan.hpp>
#include <ostraka/checkpoint/impl/pack.hpp>
#include <ostraka/comm/agreement.hpp>

#include <algorithm>

namespace ostraka::checkpoint::impl {

namespace {

Extras::Value read_value(File& file, const Tensor& tensor, const std::string& path, bool verify) {
  Extras::Value value{tensor.name, tensor.dtype, tensor.shape, tensor.is_text,
                      std::vector<std::byte>(static_cast<std::size_t>(tensor.bytes()))};
  const Piece piece{value.bytes.data(), tensor.bytes(), tensor.offset, &tensor.name};
  file.read({&piece, 1});
  expect(!verify || crc32c(value.bytes.data(), value.bytes.size()) == tensor.crc32c, Status::INPUT_OUTPUT,
         "checkpoint '", path, "': '", tensor.path(), "' is damaged: its checksum is not the one that was saved");
  return value;
}

Table read_file(const std::string& path, bool verify) {
  Table table;
  table.contents = read_contents(path);
  auto& tensors = table.contents.tensors;
  const auto user = std::stable_partition(tensors.begin(), tensors.end(),
                                          [](const Tensor& tensor) { return tensor.group != user_group; });
  File file(path, File::For::reading);
  for (auto tensor = user; tensor != tensors.end(); ++tensor)
    table.user.set(read_value(file, *tensor, path, verify));
  tensors.erase(user, tensors.end());
  return table;
}

void pack(Packer& packer, const layout::Shape& shape) { packer.add(shape.data(), shape.size() * sizeof(std::int64_t)); }

layout::Shape shape(Unpacker& unpacker) {
  const auto bytes = unpacker.bytes<std::string>();
  layout::Shape result(bytes.size() / sizeof(std::int64_t));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(result.data()));
  return result;
}

std::vector<std::int64_t> pack(const Table& table) {
  Packer packer;
  packer.add(table.contents.steps.value_or(-1));
  packer.add(static_cast<std::int64_t>(table.contents.tensors.size()));
  for (const Tensor& tensor : table.contents.tensors) {
    packer.add(tensor.group);
    packer.add(tensor.name);
    packer.add(static_cast<std::int64_t>(tensor.dtype));
    pack(packer, tensor.shape);
    packer.add(static_cast<std::int64_t>(tensor.other_names.size()));
    for (const std::string& other : tensor.other_names)
      packer.add(other);
    packer.add(tensor.crc32c);
    packer.add(tensor.offset);
  }
  for (const Extras::Value& value : table.user.values()) {
    packer.add(value.name);
    packer.add(static_cast<std::int64_t>(value.dtype));
    pack(packer, value.shape);
    packer.add(value.is_text ? 1 : 0);
    packer.add(value.bytes.data(), value.bytes.size());
  }
  packer.add(std::string()); // no value has an empty name
  return packer.take();
}

Tensor unpack_tensor(Unpacker& from) {
  Tensor tensor;
  tensor.group = from.text();
  tensor.name = from.text();
  tensor.dtype = static_cast<DType>(from.number());
  tensor.shape = shape(from);
  tensor.other_names.resize(static_cast<std::size_t>(from.number()));
  for (std::string& other : tensor.other_names)
    other = from.text();
  tensor.crc32c = static_cast<std::uint32_t>(from.number());
  tensor.offset = from.number();
  return tensor;
}

Table unpack(std::vector<std::int64_t> numbers) {
  Unpacker from(std::move(numbers));
  Table table;
  if (const std::int64_t steps = from.number(); steps >= 0)
    table.contents.steps = steps;
  for (std::int64_t left = from.number(); left > 0; --left)
    table.contents.tensors.push_back(unpack_tensor(from));
  for (std::string name = from.text(); !name.empty(); name = from.text()) {
    Extras::Value value;
    value.name = std::move(name);
    value.dtype = static_cast<DType>(from.number());
    value.shape = shape(from);
    value.is_text = from.number() != 0;
    value.bytes = from.bytes<std::vector<std::byte>>();
    table.user.set(std::move(value));
  }
  return table;
}

} // namespace

Table read_table(comm::Communicator& group, const std::string& path, bool verify) {
  std::vector<std::int64_t> numbers;
  comm::together(group, [&] {
    if (group.rank() == 0)
      numbers = pack(read_file(path, verify));
  });
  return unpack(comm::from_first_rank(group, numbers));
}

} // namespace ostraka::checkpoint::impl
