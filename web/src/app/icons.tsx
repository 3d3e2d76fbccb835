// The icons of the page: 16 x 16, drawn with the colour of the text.
const paths = {
  runs: "M3 4h10M3 8h10M3 12h6",
  submit: "M8 3v10M3 8h10",
  cluster: "M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.01M5.5 11h.01",
  compare: "M2 12c3-8 4 2 7-4 1.500-3 3-4 5-4M2 8c3-3 6 5 12 4",
  budget: "M8 2v12M11 4.500H6.500a2 2 0 000 4h3a2 2 0 010 4H5",
  settings:
    "M8 10a2 2 0 100-4 2 2 0 000 4zM8 2v2M8 12v2M2 8h2M12 8h2M3.800 3.800l1.400 1.400M10.800 10.800l1.400 1.400M12.200 3.800l-1.400 1.400M5.200 10.800l-1.400 1.400",
  theme: "M13 9.500A5.500 5.500 0 016.500 3 5.500 5.500 0 1013 9.500z",
  report: "M4 2.500h5.500L12 5v8.500H4zM6.500 7h3M6.500 9h3M6.500 11h2",
  help: "M6 6a2 2 0 113 1.700c-.7.400-1 .800-1 1.600M8 12h.01",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  search: "M7 11.500a4.500 4.500 0 100-9 4.500 4.500 0 000 9zM10.500 10.500L14 14",
  columns: "M2.500 3h11v10h-11zM6 3v10M10 3v10",
  group: "M2.500 3h11M5.500 6.500h8M5.500 9.500h8M2.500 13h11",
  star: "M8 2.500l1.700 3.500 3.800.500-2.800 2.700.700 3.800L8 11.200 4.600 13l.700-3.800L2.500 6.500 6.300 6z",
  pin: "M5.500 2.500h5M6.500 2.500v4l-2 2.500h7l-2-2.500v-4M8 9v4.500",
  down: "M4 6l4 4 4-4",
  out: "M9 3h4v10H9M6 5L3 8l3 3M3 8h7",
} as const;

export function Icon({ name }: { name: keyof typeof paths }) {
  return (
    <svg
      width="16"
      height="16"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  );
}
