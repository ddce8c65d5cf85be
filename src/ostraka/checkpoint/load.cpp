// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/checkpoint/impl/load_plan.hpp>
#include <ostraka/checkpoint/impl/tensor_reader.hpp>
#include <ostraka/comm/agreement.hpp>

#include <iomanip>

namespace ostraka::checkpoint {

namespace {

using impl::Catalog;
using impl::PartSum;
using impl::Table;

class Loader {
public:
  Loader(const std::string& path, Content& content, const LoadOptions& options)
      : path_(path), operation_("load '" + path + "'"), content_(content), options_(options),
        group_(impl::group_of(content)) {}

  LoadReport load() {
    comm::together(*group_, [&] { check(); });
    impl::agree_on_catalog(*group_, catalog_, path_, operation_);
    comm::agree_on_value(*group_, hash_of_options(), operation_ + ": options");
    table_ = impl::read_table(*group_, path_, options_.verify);
    plan_ = impl::make_plan(catalog_, table_.contents, options_, operation_);
    for (const impl::Match& match : plan_.matches)
      tensors_.push_back(table_.contents.tensors[match.tensor]);
    check_coverage();
    const std::vector<PartSum> sums = read();
    if (options_.verify)
      verify(sums);
    content_.user = std::move(table_.user);
    content_.steps = table_.contents.steps;
    return std::move(plan_.report);
  }

private:
  void check() {
    catalog_ = impl::make_catalog(content_, false, operation_);
    for (const buffer::NamedState& state : content_.states)
      if (state.check_update)
        state.check_update();
  }

  std::int64_t hash_of_options() const {
    Hash hash;
    hash.add(options_.strict).add(options_.state).add(options_.verify);
    for (const std::string& pattern : options_.patterns)
      hash.add(pattern);
    return hash.value();
  }

  // What fails here on one rank still ends the update everywhere, so that the weights stay usable.
  std::vector<PartSum> read() {
    for (const int i : plan_.states)
      if (const auto& before_update = content_.states[i].before_update)
        before_update();
    std::vector<PartSum> sums;
    std::optional<Error> error;
    try {
      sums = impl::read_tensors(path_, catalog_, table_.contents.tensors, plan_.matches, options_.verify);
    } catch (const Error& caught) {
      error = caught;
    } catch (const std::exception& caught) {
      error.emplace(Status::INTERNAL, caught.what());
    }
    for (const int i : plan_.states)
      if (const auto& refresh = content_.states[i].refresh)
        refresh();
    for (const int i : plan_.states)
      if (const auto& after_update = content_.states[i].after_update)
        after_update();
    comm::agree_on_status(*group_, error);
    return sums;
  }

  // That the ranks have every element once, before anything changes.
  void check_coverage() const {
    std::vector<PartSum> own;
    for (std::size_t m = 0; m < plan_.matches.size(); ++m)
      if (const layout::Range& part = catalog_.sources[plan_.matches[m].source].written; part.size() > 0)
        own.push_back({static_cast<std::int64_t>(m), part.begin, part.size(), 0});
    impl::combine_sums(tensors_, gather_sums(*group_, own), operation_);
  }

  // That it is what was saved.
  void verify(const std::vector<PartSum>& own) const {
    const std::vector<std::uint32_t> found = impl::combine_sums(tensors_, gather_sums(*group_, own), operation_);
    std::ostringstream text;
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (found[i] != tensors_[i].crc32c)
        text << (text.tellp() > 0 ? ", '" : "'") << tensors_[i].path() << "' (checksum expected " << std::hex
             << std::setfill('0') << std::setw(8) << tensors_[i].crc32c << ", found " << std::setw(8) << found[i] << ")"
             << std::dec;
    expect(text.tellp() == 0, Status::INPUT_OUTPUT, "checkpoint '", path_, "' is damaged: ", text.str(),
           "; what was loaded is undefined");
  }

  const std::string& path_;
  std::string operation_;
  Content& content_;
  const LoadOptions& options_;
  std::shared_ptr<comm::Communicator> group_;
  Catalog catalog_;
  Table table_;
  impl::LoadPlan plan_;
  std::vector<Tensor> tensors_; ///< of the file, one per match
};

} // namespace

LoadReport load(const std::string& path, Content& content, const LoadOptions& options) {
  return Loader(path, content, options).load();
}

} // namespace ostraka::checkpoint
