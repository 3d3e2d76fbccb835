// A libnvidia-ml.so.1 for tests. Its devices and their values are the lines of the file that the
// variable LOCKSTEP_FAKE_NVML names, read again at each call:
//
//   0 power 312500       the value "power" of device 0; a value without a line is "not supported"
//   0 lost 1             device 0 has fallen off the bus
//   1 hang 1             each call for device 1 waits until the line is gone
//   0 xid 79             the next event of device 0; a change of the line is a further event
//
// Devices have the UUIDs GPU-fake-0, GPU-fake-1, ... FAKE_NVML_OLD leaves out what an old driver
// lacks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { success = 0, not_supported = 3, not_found = 6, timed_out = 10, lost = 15, device_count = 16 };

struct device {
  int number;
  unsigned long long xid;  // that the last event had
  int watched;
};
static struct device devices[device_count];

// False: there is no such line.
static int line_of(int device, const char* key, unsigned long long* value) {
  const char* name = getenv("LOCKSTEP_FAKE_NVML");
  FILE* file = name ? fopen(name, "r") : NULL;
  char line[256], found_key[64];
  int number = 0, found = 0;
  while (file && !found && fgets(line, sizeof line, file))
    found = sscanf(line, "%d %63s %llu", &number, found_key, value) == 3 && number == device &&
            strcmp(found_key, key) == 0;
  if (file) fclose(file);
  return found;
}

static int read_value(const struct device* device, const char* key, unsigned long long* value) {
  unsigned long long ignored = 0;
  while (line_of(device->number, "hang", &ignored)) usleep(5000);
  if (line_of(device->number, "lost", &ignored)) return lost;
  return line_of(device->number, key, value) ? success : not_supported;
}
static int read_number(const struct device* device, const char* key, unsigned* number) {
  unsigned long long value = 0;
  const int status = read_value(device, key, &value);
  if (status == success) *number = (unsigned)value;
  return status;
}

int nvmlInit_v2(void) { return success; }
int nvmlShutdown(void) { return success; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device** device) {
  unsigned long long ignored = 0;
  if (index >= device_count || !line_of((int)index, "present", &ignored)) return not_found;
  if (line_of((int)index, "lost", &ignored)) return lost;
  devices[index].number = (int)index;
  *device = &devices[index];
  return success;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, struct device** device) {
  unsigned index = 0;
  if (sscanf(uuid, "GPU-fake-%u", &index) != 1) return not_found;
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
int nvmlDeviceGetUtilizationRates(const struct device* device, unsigned* rates) {
  const int status = read_number(device, "utilization", &rates[0]);
  return status == success ? read_number(device, "memory_utilization", &rates[1]) : status;
}
int nvmlDeviceGetMemoryInfo(const struct device* device, unsigned long long* total_free_used) {
  const int status = read_value(device, "memory_total", &total_free_used[0]);
  return status == success ? read_value(device, "memory_used", &total_free_used[2]) : status;
}
int nvmlDeviceGetPowerUsage(const struct device* device, unsigned* milliwatts) {
  return read_number(device, "power", milliwatts);
}
int nvmlDeviceGetTemperature(const struct device* device, int sensor, unsigned* celsius) {
  return sensor == 0 ? read_number(device, "temperature", celsius) : not_supported;
}
int nvmlDeviceGetClockInfo(const struct device* device, int kind, unsigned* megahertz) {
  return read_number(device, kind == 1 ? "sm_clock" : kind == 2 ? "memory_clock" : "?", megahertz);
}
int nvmlDeviceGetTotalEccErrors(const struct device* device, int kind, int counter,
                                unsigned long long* count) {
  if (counter != 0) return not_supported;
  return read_value(device, kind == 0 ? "ecc_corrected" : "ecc_uncorrected", count);
}
int nvmlDeviceGetPcieThroughput(const struct device* device, int direction, unsigned* kilobytes) {
  return read_number(device, direction == 0 ? "pcie_transmit" : "pcie_receive", kilobytes);
}
int nvmlDeviceGetPcieReplayCounter(const struct device* device, unsigned* count) {
  return read_number(device, "pcie_replays", count);
}

#ifdef FAKE_NVML_OLD
// Its name until driver 535.
int nvmlDeviceGetCurrentClocksThrottleReasons(const struct device* device,
                                              unsigned long long* reasons) {
  return read_value(device, "clocks_event_reasons", reasons);
}
#endif

#ifndef FAKE_NVML_OLD
int nvmlDeviceGetCurrentClocksEventReasons(const struct device* device,
                                           unsigned long long* reasons) {
  return read_value(device, "clocks_event_reasons", reasons);
}
struct field {
  unsigned id, scope;
  long long timestamp, latency;
  int type, status;
  union {
    unsigned number;
    unsigned long long count;
  } value;
};
struct event {
  struct device* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetEnforcedPowerLimit(const struct device* device, unsigned* milliwatts) {
  return read_number(device, "power_limit", milliwatts);
}
int nvmlDeviceGetTotalEnergyConsumption(const struct device* device, unsigned long long* energy) {
  return read_value(device, "energy", energy);
}
int nvmlDeviceGetFieldValues(const struct device* device, int count, struct field* fields) {
  for (int i = 0; i < count; ++i) {
    struct field* field = &fields[i];
    const int is_of_links = field->id == 138 || field->id == 139;
    field->type = is_of_links ? 3 : 1;
    const char* key = field->id == 82    ? "memory_temperature"
                      : field->id == 138 ? "nvlink_transmit"
                      : field->id == 139 ? "nvlink_receive"
                                         : "?";
    unsigned long long value = 0;
    field->status = read_value(device, key, &value);
    if (is_of_links && field->scope != ~0u) field->status = not_supported;
    if (is_of_links)
      field->value.count = value;
    else
      field->value.number = (unsigned)value;
  }
  return success;
}
int nvmlEventSetCreate(void** set) {
  *set = devices;
  return success;
}
int nvmlDeviceRegisterEvents(struct device* device, unsigned long long types, void* set) {
  device->watched = set == devices && types == 8;
  return success;
}
int nvmlEventSetWait_v2(void* set, struct event* event, unsigned wait_ms) {
  if (set != devices || wait_ms != 0) return not_supported;
  for (int i = 0; i < device_count; ++i) {
    unsigned long long xid = 0;
    if (!devices[i].watched || !line_of(i, "xid", &xid) || xid == devices[i].xid) continue;
    devices[i].xid = xid;
    *event = (struct event){&devices[i], 8, xid, ~0u, ~0u};
    return success;
  }
  return timed_out;
}
#endif
