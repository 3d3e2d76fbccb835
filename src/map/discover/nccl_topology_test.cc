#include "map/discover/nccl_topology.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "map/discover/fake_root_for_test.h"

namespace lockstep::map {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// A machine with a GPU and an RDMA NIC below one PCI switch, and a plain NIC at a root port.
class FakeMachine {
 public:
  FakeMachine() {
    add_file("proc/cpuinfo",
             "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n"
             "model\t\t: 85\nmodel name\t: Xeon\n");
    add_file("sys/devices/system/node/node1/cpumap", "00000000,0000ffff\n");
    const std::string upper = "pci0000:10/0000:10:01.0/0000:11:00.0";
    add_device(upper, "0x060400");
    add_device(upper + "/0000:12:00.0", "0x060400");
    add_device(upper + "/0000:12:00.0/0000:13:00.0", "0x030200", "GPU");
    add_device(upper + "/0000:12:01.0", "0x060400");
    const auto rdma = add_device(upper + "/0000:12:01.0/0000:14:00.0", "0x020700");
    const auto plain = add_device("pci0000:00/0000:00:03.0/0000:01:00.0", "0x020000", "", "-1");
    root_.add_card("0000:13:00.0", "Model: H100\nDevice Minor: 0\nGPU UUID: GPU-1\n");
    root_.add_device("nvidia0");
    add_link("sys/class/infiniband/mlx5_0/device", rdma);
    add_file("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n");
    add_link("sys/class/net/ib0/device", rdma);
    add_link("sys/class/net/eth0/device", plain);
    root_.add_folder("sys/class/net/lo");
  }
  const fs::path& path() const { return root_.path(); }

 private:
  void add_file(const fs::path& path, const std::string& content) {
    root_.add_folder(path.parent_path());
    EXPECT_TRUE(write_file(root_.path() / path, content));
  }
  void add_link(const fs::path& path, const fs::path& target) {
    root_.add_folder(path.parent_path());
    fs::create_directory_symlink(target, root_.path() / path);
  }
  fs::path add_device(const std::string& path, const std::string& pci_class,
                      const std::string& kind = "", const std::string& numa = "1") {
    const fs::path folder = fs::path("sys/devices") / path;
    add_file(folder / "class", pci_class + "\n");
    add_file(folder / "numa_node", numa + "\n");
    add_file(folder / "max_link_speed", "32.0 GT/s PCIe\n");
    add_file(folder / "max_link_width", "16\n");
    const fs::path target = root_.path() / folder;
    if (!kind.empty()) add_link(fs::path("sys/bus/pci/devices") / folder.filename(), target);
    return target;
  }
  FakeRoot root_;
};

TEST(NcclTopology, PutsGpusAndNicsBelowTheSwitchThatTheyShare) {
  const FakeMachine machine;
  const auto xml = nccl_topology({}, machine.path());
  ASSERT_TRUE(xml.has_value()) << xml.error().message;
  EXPECT_EQ(*xml, R"(<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:01:00.0" class="0x020000" link_width="16" link_speed="32.0 GT/s PCIe">
      <nic><net name="eth0" dev="1" speed="10000" port="1"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" affinity="00000000,0000ffff" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:11:00.0" class="0x060400" link_width="16" link_speed="32.0 GT/s PCIe">
      <pci busid="0000:13:00.0" class="0x030200" link_width="16" link_speed="32.0 GT/s PCIe">
        <gpu dev="0"/>
      </pci>
      <pci busid="0000:14:00.0" class="0x020700" link_width="16" link_speed="32.0 GT/s PCIe">
        <nic><net name="mlx5_0" dev="0" speed="400000" port="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>)");
}

TEST(NcclTopology, TakesFromTheMapWhatTheKernelDoesNotTell) {
  const FakeMachine machine;
  const LinkSpeed to_leaf{Bandwidth(3'125'000'000), Duration(2500)};
  const auto xml = nccl_topology(to_leaf, machine.path()).value();
  EXPECT_THAT(xml, HasSubstr(R"(name="eth0" dev="1" speed="25000" port="1" latency="2.500")"));
  EXPECT_THAT(xml, HasSubstr(R"(name="mlx5_0" dev="0" speed="400000")"));
  EXPECT_THAT(xml, Not(HasSubstr("ib0")));
}

TEST(NcclTopology, OfAMachineWithoutSuchDevicesIsRefused) {
  const FakeRoot empty;
  const auto refused = nccl_topology({}, empty.path());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, Code::not_found);
  EXPECT_THAT(refused.error().message, HasSubstr("neither a GPU nor a network card"));
}

}  // namespace
}  // namespace lockstep::map
