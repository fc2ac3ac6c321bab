// For tests that no change of the system's clock moves a deadline: the program's wall clock jumps,
// the system's stays as it is.
//
//   const bool jumped = PutWallClockForward();  // at namespace scope
#ifndef MUSTER_CORE_PLATFORM_WALL_CLOCK_JUMP_H_
#define MUSTER_CORE_PLATFORM_WALL_CLOCK_JUMP_H_

namespace muster {

// Makes MonotonicNow() begin, and then puts the wall clock forward by an hour: a wait that follows
// the wall clock ends at once. To be called before the process first asks for the time, so before
// main. False when it was too late.
bool PutWallClockForward();

}  // namespace muster

#endif  // MUSTER_CORE_PLATFORM_WALL_CLOCK_JUMP_H_
