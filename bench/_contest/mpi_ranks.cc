// An MPI rank in the contest; peers.py compiles it once with each MPI's own compiler.
//
//   mpirun ... PROGRAM SOCKET
//
// An error in a call ends all ranks, which is MPI's default.
#include <algorithm>
#include <cstdint>

#include <mpi.h>

#include "rank.h"

namespace {

class Mpi final : public lockstep::contest::Contestant {
 public:
  ~Mpi() override { release(); }
  int rank() const override { return number_from(MPI_Comm_rank); }
  int ranks() const override { return number_from(MPI_Comm_size); }

  std::span<float> allocate(std::size_t floats) override {
    constexpr std::size_t kPage = lockstep::contest::kPage;
    release();
    MPI_Alloc_mem(static_cast<MPI_Aint>(floats * sizeof(float) + kPage), MPI_INFO_NULL, &memory_);
    const auto address = (reinterpret_cast<std::uintptr_t>(memory_) + kPage - 1) / kPage * kPage;
    return {reinterpret_cast<float*>(address), floats};
  }

  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void all_reduce(std::span<float> buffer) override {
    MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
  void reduce_scatter(std::span<float> input, std::span<float> output) override {
    MPI_Reduce_scatter_block(input.data(), output.data(), static_cast<int>(output.size()),
                             MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void all_gather(std::span<float> output) override {
    const int block = static_cast<int>(output.size()) / ranks();
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, output.data(), block, MPI_FLOAT,
                  MPI_COMM_WORLD);
  }

 private:
  static int number_from(int (*ask)(MPI_Comm, int*)) {
    int number = 0;
    ask(MPI_COMM_WORLD, &number);
    return number;
  }
  void release() {
    if (memory_ != nullptr) MPI_Free_mem(memory_);
    memory_ = nullptr;
  }

  void* memory_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 2) lockstep::contest::die("mpirun ... mpi_ranks SOCKET");
  {
    Mpi mpi;
    lockstep::contest::serve(mpi, argv[1]);
  }
  MPI_Finalize();
}
