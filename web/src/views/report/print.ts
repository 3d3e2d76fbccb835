// Paper is white, so a dark page is printed light. Charts are drawn again before that.
import { setTheme, themeOf } from "../../app/theme";

const drawing = 300;

export async function printLight(): Promise<void> {
  const before = themeOf();
  setTheme("light");
  if (before !== "light") await new Promise((resolve) => setTimeout(resolve, drawing));
  print();
  setTheme(before);
}
