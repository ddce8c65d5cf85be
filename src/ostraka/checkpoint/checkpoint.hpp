// SPDX-License-Identifier: Apache-2.0
// Saves named tensors of all ranks to one file and loads them into any other arrangement of ranks, layouts and types.
// The format is in this room's README. Source: seed 001, design section 3 "Checkpoint".
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/checkpoint/extras.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::checkpoint {

/// Arrays of the user, sharded as he likes: one name per tensor of the buffer.
struct Field {
  std::vector<std::string> names;
  buffer::DBuffer values;
};

/// What is saved, or where it is loaded to. The same on all ranks, on one mesh; at least one state or field. A state
/// may be listed twice, as it comes from a context (all_states) and from an optimizer (named_states): that is one.
struct Content {
  std::vector<buffer::NamedState> states;
  std::vector<Field> fields;
  Extras user;                       ///< equal on all ranks; what rank 0 has is written
  std::optional<std::int64_t> steps; ///< of the optimizer
};

struct SaveOptions {
  bool sync = true; ///< the file is on the disk when it gets its name; false: a crash of the machine may lose it
};

/// Writes main weights, their state, fields and user values. The file gets its name when it is whole; until then, and
/// when anything fails, `path` is what it was, with one exception: an error that says that the file is complete, but
/// its name may not be on the disk. Then `path` is the new file, which a crash of the machine may take back. Every rank
/// writes what it holds itself, replicas a part each; nothing is gathered, and copied only from memory of devices, as
/// by AsyncSave. Collective over the mesh; a rank waits at most OSTRAKA_TIMEOUT_S for the writing of the others.
/// INVALID_STATE while an asynchronous save is in flight on any rank and between a fused update and its step;
/// INVALID_ARGUMENT for two tensors of one name; RANKS_DISAGREE naming the tensor or value that differs; INPUT_OUTPUT
/// naming file, tensor and rank. Every rank throws the same error.
OSTRAKA_API void save(const std::string& path, const Content& content, const SaveOptions& options = {});

struct LoadOptions {
  /// Tensors that the file lacks or has beyond those asked for are an error; false: what both have is loaded.
  bool strict = true;
  /// Only tensors of these names, in which `*` stands for any characters and `?` for one; empty: all. Each must fit a
  /// tensor of the content.
  std::vector<std::string> patterns = {};
  bool state = true; ///< false: optimizer state stays, and the file's is ignored
  /// Every byte that is read is compared with the file's checksums, once
  bool verify = true;
};

/// Names of tensors ("main_weight/layer0.weight") that a load that is not strict left out.
struct LoadReport {
  std::vector<std::string> missing;    ///< asked for, not in the file
  std::vector<std::string> unexpected; ///< in the file, not asked for
};

/// Reads into the states and fields of `content`, whatever the ranks, layouts and placements were when the file was
/// written, and replaces its user values and steps by those of the file. Floating types are converted as by
/// DBuffer::cast: rounded once, to nearest; other types must be equal. Model weights follow. Collective over the mesh;
/// a rank waits at most OSTRAKA_TIMEOUT_S for the reading of the others, so that limit is to be above the time that a
/// rank needs to read its part. INVALID_STATE while weights are in use; INPUT_OUTPUT for a file that cannot be read;
/// INVALID_ARGUMENT for one that is no checkpoint, or SHAPE_MISMATCH, TYPE_MISMATCH where tensors do not fit: one error
/// lists all that are missing, unexpected or different; INTERNAL where ranks do not have every element once, as with
/// layouts that differ among them. Then nothing has changed. INPUT_OUTPUT while tensors are read, also for bytes that
/// are not those that were saved: then the contents of the tensors are undefined. Memory of devices gets its values by
/// copies of 256 KiB, behind what the compute stream has queued. Every rank throws the same error.
OSTRAKA_API LoadReport load(const std::string& path, Content& content, const LoadOptions& options = {});

/// A save that goes on while training does. The destructor waits for this rank's writing and drops a file that wait()
/// or test() did not complete.
class OSTRAKA_API AsyncSave {
public:
  /// Copies what this rank writes (staging_bytes()), and starts a thread that writes and syncs the copy; it calls
  /// neither MPI nor HDF5. The memory of the copy stays for the next such save, see release_memory(). Weights may
  /// change as soon as this returns. One save may be in flight in a process. Collective over the mesh; errors as
  /// save(), and OUT_OF_MEMORY on all ranks when one has no room.
  static std::unique_ptr<AsyncSave> start(const std::string& path, const Content& content,
                                          const SaveOptions& options = {});
  ~AsyncSave();
  AsyncSave(const AsyncSave&) = delete;
  AsyncSave& operator=(const AsyncSave&) = delete;

  /// Whether the file is complete and has its name. Throws what went wrong on any rank, on all, once. Collective.
  bool test();
  /// The same when it is. Collective.
  void wait();
  bool is_done() const;
  std::int64_t staging_bytes() const; ///< of this rank, copied by start()
  /// Gives the memory back that the last copy left for the next one, which then takes longer to start. Local; does
  /// nothing to a save in flight.
  static void release_memory();

private:
  struct Flight;
  explicit AsyncSave(std::unique_ptr<Flight> flight);
  std::unique_ptr<Flight> flight_;
};

} // namespace ostraka::checkpoint
