// SPDX-License-Identifier: Apache-2.0
// What of a file goes where. Every rank makes the same plan from the same table.
#pragma once

#include <ostraka/checkpoint/impl/catalog.hpp>

#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {

/// The table of a file and its user values, which are in no other place of a load.
struct Table {
  Contents contents; ///< steps, and tensors without those of the group user
  Extras user;
};

/// Rank 0 reads it, all get it. Collective; errors as load() says, on all ranks.
Table read_table(comm::Communicator& group, const std::string& path, bool verify);

struct Match {
  std::size_t source; ///< in the catalog
  std::size_t tensor; ///< in the file
};

struct LoadPlan {
  std::vector<Match> matches; ///< in the order of the file
  std::vector<int> states;    ///< of the content, that change
  LoadReport report;
};

/// Throws what load() says of tensors that do not fit, before anything changes.
LoadPlan make_plan(const Catalog& catalog, const Contents& contents, const LoadOptions& options,
                   const std::string& operation);

} // namespace ostraka::checkpoint::impl
