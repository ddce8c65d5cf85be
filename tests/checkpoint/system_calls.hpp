// SPDX-License-Identifier: Apache-2.0
// Every call of the system on the files of a folder, by whatever library of the process, HDF5 too: counted, and one of
// them fails when the test says so. The functions of the C library are replaced in programs that link this.
#pragma once

#include <string>
#include <vector>

namespace ostraka::checkpoint::test {

class SystemCalls {
public:
  /// The files of `folder`, by paths that begin with it, and the folder itself. One at a time.
  explicit SystemCalls(const std::string& folder);
  ~SystemCalls();
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;

  /// The `number`-th of the calls from now on (from 1) fails with `error`; 0: the process ends. It must change a file
  /// or what is open: open, pwrite, pwritev, ftruncate, fsync, close, rename; with `reads` it is a read.
  void fail(int number, int error, bool reads = false);
  bool has_failed() const;
  std::vector<std::string> names() const; ///< "pwrite", ... in their order
};

} // namespace ostraka::checkpoint::test
