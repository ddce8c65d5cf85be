// SPDX-License-Identifier: Apache-2.0
// The parts of a save: the frame and what this rank writes, the writing, which is local, and the end.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/impl/catalog.hpp>
#include <ostraka/checkpoint/impl/file.hpp>
#include <ostraka/checkpoint/impl/staging.hpp>
#include <ostraka/checkpoint/impl/sums.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {

class SaveJob {
public:
  /// Computes all checksums, and writes the frame beside `path`. Pieces are those of the content, or of a copy of them
  /// that `copies` or memory of devices asks for.
  /// Collective; on failure nothing is left.
  SaveJob(std::string path, const Content& content, const SaveOptions& options, bool copies);

  /// Writes what this rank has, and syncs. Local, without MPI and HDF5; on any thread.
  void write();
  /// The file gets its name, or is dropped when any rank passes an error, which all throw. Collective.
  void finish(const std::optional<Error>& error);
  /// Drops the file. Local.
  void drop() noexcept;

  std::int64_t copied_bytes() const { return copied_bytes_; }
  comm::Communicator& group() { return *group_; }
  /// The copy is not needed any more.
  void end_copy() { copy_.keep(); }

private:
  void prepare(const Content& content);
  std::vector<PartSum> take_parts(const std::vector<Source>& sources);
  void take_copy(const std::vector<Source>& sources);
  void make_file();
  void place();

  std::string path_;
  SaveOptions options_;
  bool copies_;
  std::string operation_;
  std::string partial_path_; ///< until the end
  std::shared_ptr<comm::Communicator> group_;
  Contents contents_;
  std::vector<std::size_t> tensors_; ///< of every piece, index in contents_.tensors
  std::vector<std::int64_t> begins_; ///< of every piece, bytes behind the begin of its tensor
  std::vector<Piece> pieces_;
  Staging copy_;
  std::int64_t copied_bytes_ = 0;
};

} // namespace ostraka::checkpoint::impl
