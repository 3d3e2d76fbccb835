// Sums over all ranks with lockstep/comm.h alone, without the platform.
//
//   mpirun -np 4 build/bin/sum          also by mpiexec, srun, torchrun --no-python, lockstep run
#include <chrono>
#include <cstdio>

#include <lockstep/comm.h>

lockstep::Result<void> run() {
  auto world = LOCKSTEP_TRY(lockstep::join({.timeout = std::chrono::seconds(60)}));

  // Buffers in the communicator's memory need no copy within a host.
  const auto buffer = LOCKSTEP_TRY(world.allocate<float>(1 << 20));
  const auto values = buffer.as<float>();
  for (auto& value : values) value = static_cast<float>(world.rank() + 1);

  LOCKSTEP_TRY(world.all_reduce(values, lockstep::ReduceOp::sum));

  if (world.rank() == 0)
    std::printf("%d ranks: 1 + ... + %d = %g\n", world.size(), world.size(),
                static_cast<double>(values.back()));
  return {};
}

int main() {
  const auto done = run();
  if (!done) std::fprintf(stderr, "sum: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
