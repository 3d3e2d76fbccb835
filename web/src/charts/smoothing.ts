// Exponential moving average without the bias of its start (Kingma and Ba, "Adam", section 3), as
// TensorBoard and Weights & Biases have it. Points that are not finite are left out of the average.

/** `weight` is from 0, no smoothing, to below 1. */
export function smooth(values: readonly (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return [...values];
  let average = 0;
  let share = 0;
  return values.map((value) => {
    if (value === null || !Number.isFinite(value)) return value;
    average = average * weight + value * (1 - weight);
    share = share * weight + (1 - weight);
    return average / share;
  });
}
