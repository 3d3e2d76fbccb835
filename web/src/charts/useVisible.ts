import { type RefObject, useEffect, useRef, useState } from "react";

/** If an element is in view or near it. Charts that are not read no points and draw nothing. */
export function useVisible<E extends Element>(): [RefObject<E | null>, boolean] {
  const element = useRef<E>(null);
  const [visible, setVisible] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver(
      ([entry]) => setVisible(entry?.isIntersecting ?? false),
      { rootMargin: "300px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, visible];
}
