// Sums over all ranks with comm alone, without the platform.
//
//   mpirun -np 4 build/bin/sum          also by mpiexec, srun, torchrun --no-python, lockstep run
#include <cstdio>
#include <span>

#include "comm/collective/start/join.h"

using namespace lockstep;

Result<void> run() {
  const auto joined = TRY(comm::join({.timeout = std::chrono::seconds(60)}));
  auto& world = *joined.world;

  // Buffers in the communicator's memory need no copy within a host.
  const auto buffer = TRY(world.allocate(4_MiB));
  const std::span values(reinterpret_cast<float*>(buffer.data()), (4 << 20) / sizeof(float));
  for (auto& value : values) value = static_cast<float>(world.rank() + 1);

  TRY(world.all_reduce(buffer.span(), DataType::float32, ReduceOp::sum, comm::CallMode::blocking)
          .wait());

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
