// LOCKSTEP_EXPORT marks what the shared libraries show.
#pragma once

#define LOCKSTEP_EXPORT __attribute__((visibility("default")))
