// SPDX-License-Identifier: Apache-2.0
#include <ostraka/checkpoint/impl/crc32c.hpp>
#include <ostraka/checkpoint/impl/format.hpp>
#include <ostraka/checkpoint/impl/partial_file.hpp>
#include <ostraka/checkpoint/impl/save_job.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

namespace ostraka::checkpoint::impl {

namespace {

// The sum of what was copied.
std::uint32_t copied(runtime::Device device, const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (device == runtime::Device::host)
    return crc32c_copy(0, to, from, static_cast<std::size_t>(bytes));
  runtime::copy_now(device, from, to, bytes);
  return crc32c(to, static_cast<std::size_t>(bytes));
}

} // namespace

SaveJob::SaveJob(std::string path, const Content& content, const SaveOptions& options, bool copies)
    : path_(std::move(path)), options_(options), copies_(copies), operation_("save '" + path_ + "'"),
      group_(group_of(content)) {
  try {
    prepare(content);
  } catch (...) {
    drop();
    throw;
  }
}

void SaveJob::prepare(const Content& content) {
  Catalog catalog;
  comm::together(*group_, [&] { catalog = make_catalog(content, true, operation_); });
  agree_on_catalog(*group_, catalog, path_, operation_);
  comm::agree_on_value(*group_, content.steps.value_or(-1) * 2 + (options_.sync ? 1 : 0),
                       operation_ + ": steps or options (here " + std::to_string(content.steps.value_or(-1)) +
                           " steps)");
  for (const Source& source : catalog.sources)
    contents_.tensors.push_back(source.tensor);
  contents_.steps = content.steps;
  contents_.layout_report = std::move(catalog.layout_report);
  copies_ = copies_ || catalog.has_device_memory();
  std::vector<PartSum> parts;
  comm::together(*group_, [&] {
    if (copies_)
      take_copy(catalog.sources);
    parts = take_parts(catalog.sources);
  });
  const std::vector<std::uint32_t> whole = combine_sums(contents_.tensors, gather_sums(*group_, parts), operation_);
  for (std::size_t i = 0; i < whole.size(); ++i)
    contents_.tensors[i].crc32c = whole[i];
  make_file();
  place();
}

// Room for the copies of all pieces.
void SaveJob::take_copy(const std::vector<Source>& sources) {
  copied_bytes_ = 0;
  for (const Source& source : sources)
    copied_bytes_ += source.written.size() * size_of(source.tensor.dtype);
  copy_ = Staging(copied_bytes_);
  expect(copy_.data() != nullptr, Status::OUT_OF_MEMORY, operation_, ": no room for a copy of ", copied_bytes_,
         " bytes; a synchronous save copies nothing but what is in memory of devices");
}

std::vector<PartSum> SaveJob::take_parts(const std::vector<Source>& sources) {
  std::vector<PartSum> sums;
  std::byte* copy = copy_.data();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Source& source = sources[i];
    if (source.written.size() == 0)
      continue;
    const std::int64_t width = size_of(source.tensor.dtype), bytes = source.written.size() * width;
    std::byte* data = source.at(source.written.begin);
    std::uint32_t sum = 0;
    if (copies_) {
      sum = copied(source.device, data, copy, bytes);
      data = copy;
      copy += bytes;
    } else {
      sum = crc32c(data, static_cast<std::size_t>(bytes));
    }
    sums.push_back({static_cast<std::int64_t>(i), source.written.begin, source.written.size(), sum});
    pieces_.push_back({data, bytes, 0, nullptr});
    tensors_.push_back(i);
    begins_.push_back(source.written.begin * width);
  }
  return sums;
}

// Rank 0 makes the file; all ranks learn its name and where their tensors go.
void SaveJob::make_file() {
  std::vector<std::int64_t> numbers;
  comm::together(*group_, [&] {
    if (group_->rank() != 0)
      return;
    std::error_code ignored;
    expect(!std::filesystem::is_directory(path_, ignored), Status::INPUT_OUTPUT, "checkpoint '", path_,
           "': is a folder");
    remove_partial_files(path_);
    numbers.push_back(random_number());
    partial_path_ = partial_path(path_, numbers[0]);
    write_frame(partial_path_, contents_);
    for (const Tensor& tensor : contents_.tensors)
      numbers.push_back(tensor.offset);
  });
  numbers = comm::from_first_rank(*group_, numbers);
  partial_path_ = partial_path(path_, numbers[0]);
  for (std::size_t i = 0; i < contents_.tensors.size(); ++i)
    contents_.tensors[i].offset = numbers[i + 1];
}

// In the order of the file, which is not that of the content.
void SaveJob::place() {
  for (std::size_t k = 0; k < pieces_.size(); ++k)
    pieces_[k].offset = contents_.tensors[tensors_[k]].offset + begins_[k];
  std::vector<std::size_t> order(pieces_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return pieces_[a].offset < pieces_[b].offset; });
  std::vector<Piece> sorted;
  for (const std::size_t k : order) {
    sorted.push_back(pieces_[k]);
    sorted.back().name = &contents_.tensors[tensors_[k]].name;
  }
  pieces_ = std::move(sorted);
}

void SaveJob::write() {
  if (pieces_.empty() && group_->rank() != 0)
    return;
  File file(partial_path_, File::For::writing); // rank 0 also syncs the frame
  file.write(pieces_);
  if (options_.sync)
    file.sync();
  file.close();
}

void SaveJob::finish(const std::optional<Error>& error) {
  try {
    comm::agree_on_status(*group_, error);
    comm::together(*group_, [&] {
      if (group_->rank() == 0)
        rename_file(partial_path_, path_);
    });
  } catch (...) {
    drop();
    throw;
  }
  partial_path_.clear();
  comm::together(*group_, [&] {
    if (group_->rank() == 0 && options_.sync)
      sync_folder_of(path_);
  });
}

void SaveJob::drop() noexcept {
  if (group_ != nullptr && group_->rank() == 0 && !partial_path_.empty())
    remove_file(partial_path_);
  partial_path_.clear();
}

} // namespace ostraka::checkpoint::impl
