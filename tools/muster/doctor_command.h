// `muster doctor`: what this machine has and what Muster makes of its surroundings.
#ifndef MUSTER_TOOLS_MUSTER_DOCTOR_COMMAND_H_
#define MUSTER_TOOLS_MUSTER_DOCTOR_COMMAND_H_

#include "muster/tools/muster/command.h"

namespace muster {

Command DoctorCommand();

}  // namespace muster

#endif  // MUSTER_TOOLS_MUSTER_DOCTOR_COMMAND_H_
