// A libnvidia-ml.so of a machine with seven cards, for nvml_test.cc. Cards 01 and 02 have a bridge;
// 41, 42 and 43 are on an NVSwitch, 43 in MIG mode; 81 has no NVLink; 82 has one that is down, and 3 memory
// errors. A card 99 is lost.
#include <stdio.h>
#include <string.h>

struct card {
  const char* pci;
  const char* uuid;
  unsigned long long memory;
  unsigned mig;
  unsigned link_up;
  unsigned link_bus;  // 0: no link
};
static const struct card cards[] = {
    {"0000:01:00.0", "GPU-01", 80ull << 30, 0, 1, 0x02},
    {"0000:02:00.0", "GPU-02", 80ull << 30, 0, 1, 0x01},
    {"0000:41:00.0", "GPU-41", 40ull << 30, 0, 1, 0xc5},
    {"0000:42:00.0", "GPU-42", 40ull << 30, 0, 1, 0xc5},
    {"0000:43:00.0", "GPU-43", 40ull << 30, 1, 1, 0xc5},
    {"0000:81:00.0", "GPU-81", 24ull << 30, 0, 0, 0},
    {"0000:82:00.0", "GPU-82", 24ull << 30, 0, 0, 0x81},
};

struct memory {
  unsigned long long total, free, used;
};
struct pci_info {
  char legacy_address[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char address[32];
};
enum { success = 0, uninitialized = 1, not_supported = 3, not_found = 6, lost = 15 };

static int users = 0;

int nvmlInit_v2(void) {
  ++users;
  return success;
}
int nvmlShutdown(void) {
  --users;
  return success;
}
int nvmlSystemGetDriverVersion(char* version, unsigned size) {
  snprintf(version, size, "580.00");
  return success;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = sizeof cards / sizeof *cards;
  return success;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, const struct card** device) {
  *device = &cards[index];
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, const struct card** device) {
  if (users == 0) return uninitialized;
  if (strcmp(pci, "0000:99:00.0") == 0) return lost;
  for (unsigned i = 0; i < sizeof cards / sizeof *cards; ++i)
    if (strcmp(cards[i].pci, pci) == 0) {
      *device = &cards[i];
      return success;
    }
  return not_found;
}
int nvmlDeviceGetUUID(const struct card* device, char* uuid, unsigned size) {
  snprintf(uuid, size, "%s", device->uuid);
  return success;
}
int nvmlDeviceGetName(const struct card* device, char* name, unsigned size) {
  snprintf(name, size, "Card %.2s", device->pci + 5);
  return success;
}
int nvmlDeviceGetPciInfo_v3(const struct card* device, struct pci_info* info) {
  memset(info, 0, sizeof *info);
  sscanf(device->pci, "%x:%x:%x", &info->domain, &info->bus, &info->device);
  return success;
}
int nvmlDeviceGetMemoryInfo(const struct card* device, struct memory* memory) {
  memory->total = device->memory;
  return success;
}
int nvmlDeviceGetMigMode(const struct card* device, unsigned* current, unsigned* pending) {
  if (strcmp(device->pci, "0000:81:00.0") == 0) return not_supported;
  *current = *pending = device->mig;
  return success;
}
int nvmlDeviceGetTotalEccErrors(const struct card* device, int kind, int counter,
                                unsigned long long* count) {
  if (strcmp(device->pci, "0000:81:00.0") == 0) return not_supported;
  *count = kind == 1 && counter == 0 && strcmp(device->pci, "0000:82:00.0") == 0 ? 3 : 0;
  return success;
}
int nvmlDeviceGetNvLinkState(const struct card* device, unsigned link, unsigned* active) {
  if (link > 0 || device->link_bus == 0) return not_supported;
  *active = device->link_up;
  return success;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct card* device, unsigned link,
                                        struct pci_info* end) {
  if (link > 0) return not_supported;
  memset(end, 0, sizeof *end);
  end->bus = device->link_bus;
  snprintf(end->address, sizeof end->address, "00000000:%02X:00.0", device->link_bus);
  return success;
}
