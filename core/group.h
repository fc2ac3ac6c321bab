// Muster's facade: everything that a user of process groups needs. Start at group_pool.h.
#ifndef MUSTER_CORE_GROUP_H_
#define MUSTER_CORE_GROUP_H_

#include "muster/core/collective/buffer.h"          // IWYU pragma: export
#include "muster/core/collective/reduce_op.h"       // IWYU pragma: export
#include "muster/core/collective/work.h"            // IWYU pragma: export
#include "muster/core/group/group.h"                // IWYU pragma: export
#include "muster/core/group/group_lease.h"          // IWYU pragma: export
#include "muster/core/group/group_pool.h"           // IWYU pragma: export
#include "muster/core/group/group_spec.h"           // IWYU pragma: export
#include "muster/core/group/shutdown_on_signals.h"  // IWYU pragma: export
#include "muster/core/platform/cancellation.h"      // IWYU pragma: export

#endif  // MUSTER_CORE_GROUP_H_
