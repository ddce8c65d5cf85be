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
    verify(read());
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
    comm::agree_on_status(*group_, error);
    return sums;
  }

  // That the ranks have every element once, and what was saved if that is asked for.
  void verify(const std::vector<PartSum>& own) const {
    std::vector<Tensor> tensors;
    for (const impl::Match& match : plan_.matches)
      tensors.push_back(table_.contents.tensors[match.tensor]);
    const std::vector<std::uint32_t> found = impl::combine_sums(tensors, gather_sums(*group_, own), operation_);
    if (!options_.verify)
      return;
    std::ostringstream text;
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (found[i] != tensors[i].crc32c)
        text << (text.tellp() > 0 ? ", '" : "'") << tensors[i].path() << "' (checksum expected " << std::hex
             << std::setfill('0') << std::setw(8) << tensors[i].crc32c << ", found " << std::setw(8) << found[i] << ")"
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
};

} // namespace

LoadReport load(const std::string& path, Content& content, const LoadOptions& options) {
  return Loader(path, content, options).load();
}

} // namespace ostraka::checkpoint
