// SPDX-License-Identifier: Apache-2.0
#include <ostraka/plan/report.hpp>

namespace ostraka::plan {

const char* name(Collective collective) {
  switch (collective) {
  case Collective::allgather:
    return "allgather";
  case Collective::reduce_scatter:
    return "reduce_scatter";
  case Collective::allreduce:
    return "allreduce";
  case Collective::agreement:
    return "agreement";
  }
  return "unknown";
}

const char* name(Span::Track track) {
  switch (track) {
  case Span::Track::compute:
    return "compute";
  case Span::Track::gather:
    return "gather";
  case Span::Track::reduce:
    return "reduce";
  }
  return "unknown";
}

} // namespace ostraka::plan
