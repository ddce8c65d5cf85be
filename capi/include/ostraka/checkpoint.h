/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: one plain HDF5 file with the main weights of a context or a ddp, frozen ones too, the state and the
 * number of steps of its optimizer, and what the program adds (extras.h). Tensors are whole in the file, so it is
 * loaded with any number of ranks, recipe, layout and floating type, and any HDF5 program reads it.
 *
 * `optimizer` and `extras` may be NULL: none. Everything is collective over the mesh unless it says otherwise; every
 * rank returns the same error. NOT_SUPPORTED: the library was built with OSTRAKA_ENABLE_HDF5=OFF. INVALID_ARGUMENT: a
 * ddp with experts, whose mesh has other ranks.
 */
#ifndef OSTRAKA_CHECKPOINT_H
#define OSTRAKA_CHECKPOINT_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- saving */

#define OSTRAKA_SAVE_OPTIONS_VERSION 1

/* Fill it with ostraka_save_options_init, then change members. Grows only at the end. */
typedef struct {
  int64_t struct_size; /* bytes of the struct that the caller was compiled with */
  int32_t version;     /* OSTRAKA_SAVE_OPTIONS_VERSION */
  int32_t sync;        /* 1 (default): the file is on the disk when it gets its name; 0: a crash may lose it */
} ostraka_save_options_t;

/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_save_options_init_versioned(ostraka_save_options_t* options, int64_t struct_size,
                                                     int32_t version);
static inline ostraka_status_t ostraka_save_options_init(ostraka_save_options_t* options) {
  return ostraka_save_options_init_versioned(options, (int64_t)sizeof(ostraka_save_options_t),
                                             OSTRAKA_SAVE_OPTIONS_VERSION);
}

/* Saves; `options` NULL = defaults. Every rank writes what it holds, nothing is gathered or copied. The file gets its
 * name when it is whole: until then, and when anything fails, `path` is what it was, with one exception: an error that
 * says that the file is complete, but its name may not be on the disk. Then `path` is the new file, which a crash of
 * the machine may take back. A rank waits at most OSTRAKA_TIMEOUT_S for the writing of the others. The optimizer's
 * state is created as in its first step. INVALID_STATE while an asynchronous save is in flight on any rank and between
 * a fused update and its step; INVALID_ARGUMENT for two tensors of one name, as those of a context and of an optimizer
 * on another one; RANKS_DISAGREE names what differs; INPUT_OUTPUT names file, tensor and rank. */
ostraka_status_t ostraka_save(const char* path, ostraka_fsdp_context_t context, ostraka_optimizer_t optimizer,
                              ostraka_extras_t extras, const ostraka_save_options_t* options);
ostraka_status_t ostraka_save_ddp(const char* path, ostraka_ddp_t ddp, ostraka_optimizer_t optimizer,
                                  ostraka_extras_t extras, const ostraka_save_options_t* options);

/* --- saving while training goes on */

/* Copies what this rank writes and returns: weights may change. A thread writes the copy, without MPI. The memory of
 * the copy stays for the next such save. One save may be in flight in a process. Errors as ostraka_save, and
 * OUT_OF_MEMORY on all ranks when one has no room for its copy; then *save is what it was. */
ostraka_status_t ostraka_async_save_start(const char* path, ostraka_fsdp_context_t context,
                                          ostraka_optimizer_t optimizer, ostraka_extras_t extras,
                                          const ostraka_save_options_t* options, ostraka_async_save_t* save);
ostraka_status_t ostraka_async_save_start_ddp(const char* path, ostraka_ddp_t ddp, ostraka_optimizer_t optimizer,
                                              ostraka_extras_t extras, const ostraka_save_options_t* options,
                                              ostraka_async_save_t* save);

/* 1 when the file is complete and has its name, else 0. Returns what went wrong on any rank, on all, once. */
ostraka_status_t ostraka_async_save_test(ostraka_async_save_t save, int32_t* is_done);
/* The same when it is. */
ostraka_status_t ostraka_async_save_wait(ostraka_async_save_t save);
/* Bytes that this rank copied. Local. */
ostraka_status_t ostraka_async_save_staging_bytes(ostraka_async_save_t save, int64_t* bytes);
/* Gives the memory back that the copy of the last save left for the next one, which then takes longer to start. Does
 * nothing to a save in flight. Local. */
ostraka_status_t ostraka_async_save_release_memory(void);
/* Waits for this rank's writing, and drops a file that test or wait did not complete. Local. */
ostraka_status_t ostraka_async_save_destroy(ostraka_async_save_t* save);

/* --- loading */

#define OSTRAKA_LOAD_OPTIONS_VERSION 1

/* Fill it with ostraka_load_options_init, then change members. Grows only at the end. */
typedef struct {
  int64_t struct_size;  /* bytes of the struct that the caller was compiled with */
  int32_t version;      /* OSTRAKA_LOAD_OPTIONS_VERSION */
  int32_t strict;       /* 1 (default): tensors that the file lacks or has beyond those asked for are an error; 0: what
                         * both have is loaded, see ostraka_load_left_out */
  int32_t state;        /* 1 (default); 0: optimizer state and steps stay, and the file's are ignored */
  int32_t verify;       /* 1 (default): every byte that is read is compared with the file's checksums; 0: no */
  int32_t num_patterns; /* 0 (default): all tensors */
  int32_t reserved;
  const char* const*
      patterns; /* else only those of so many names, with * and ?; each must fit a tensor of the program */
} ostraka_load_options_t;

/* Sets the defaults of the version that the caller was compiled with; a newer one than the library's is refused. */
ostraka_status_t ostraka_load_options_init_versioned(ostraka_load_options_t* options, int64_t struct_size,
                                                     int32_t version);
static inline ostraka_status_t ostraka_load_options_init(ostraka_load_options_t* options) {
  return ostraka_load_options_init_versioned(options, (int64_t)sizeof(ostraka_load_options_t),
                                             OSTRAKA_LOAD_OPTIONS_VERSION);
}

/* Reads weights, state and steps into a finalised context (ddp) and its optimizer, and buffers of `extras`, whose
 * values become those of the file; `options` NULL = defaults. Floating types are converted, rounded once, to nearest.
 * Model weights follow. A file with optimizer state is loaded without an optimizer with state = 0 or strict = 0. A rank
 * waits at most OSTRAKA_TIMEOUT_S for the reading of the others.
 * INVALID_STATE while weights are in use; INPUT_OUTPUT for a file that cannot be read; INVALID_ARGUMENT for one that is
 * no checkpoint, or, as SHAPE_MISMATCH and TYPE_MISMATCH, where tensors do not fit: one error lists them all; INTERNAL
 * where ranks do not have every element once. Then nothing has changed. INPUT_OUTPUT also for bytes that are not those
 * that were saved: then the contents of the tensors are undefined. */
ostraka_status_t ostraka_load(const char* path, ostraka_fsdp_context_t context, ostraka_optimizer_t optimizer,
                              ostraka_extras_t extras, const ostraka_load_options_t* options);
ostraka_status_t ostraka_load_ddp(const char* path, ostraka_ddp_t ddp, ostraka_optimizer_t optimizer,
                                  ostraka_extras_t extras, const ostraka_load_options_t* options);

/* The tensors that this thread's last load left out, with strict = 0: those that were not in the file and those that
 * were not asked for, one to a line ("main_weight/layer.weight"), "" for none. Valid until the next load. Local. */
ostraka_status_t ostraka_load_left_out(const char** missing, const char** unexpected);

#ifdef __cplusplus
}
#endif

#endif
