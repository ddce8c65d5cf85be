/* SPDX-License-Identifier: Apache-2.0
 *
 * Ostraka: sharded distributed buffers, fully sharded and distributed data parallelism for MPI codes. The whole C
 * interface.
 */
#ifndef OSTRAKA_H
#define OSTRAKA_H

#include <ostraka/buffer.h>
#include <ostraka/checkpoint.h>
#include <ostraka/chunks.h>
#include <ostraka/ddp.h>
#include <ostraka/device.h>
#include <ostraka/extras.h>
#include <ostraka/flat_buffer.h>
#include <ostraka/fsdp.h>
#include <ostraka/layout.h>
#include <ostraka/mesh.h>
#include <ostraka/optim.h>
#include <ostraka/plan.h>
#include <ostraka/runtime.h>
#include <ostraka/status.h>
#include <ostraka/types.h>

#endif
