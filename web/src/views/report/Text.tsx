import type { ReactNode } from "react";
import Markdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { navigate } from "../../app/router";
import { ReportChart } from "./ReportChart";

const plugins = [remarkGfm];

const components: Components = {
  // A block of code; one with the language `chart` is drawn.
  pre: ({ children, node }) => {
    const [code] = node?.children ?? [];
    const isElement = code?.type === "element";
    const classes = isElement ? code.properties.className : undefined;
    if (!Array.isArray(classes) || !classes.includes("language-chart")) {
      return <pre>{children}</pre>;
    }
    const [text] = isElement ? code.children : [];
    return <ReportChart text={text?.type === "text" ? text.value : ""} />;
  },
  a: ({ href = "", children }) => <TextLink href={href}>{children}</TextLink>,
  table: ({ children }) => (
    <div className="scroll-x">
      <table className="plain">{children}</table>
    </div>
  ),
  // The box of a list of tasks, which nothing can change here.
  input: ({ checked }) => (
    <span role="img" aria-label={checked ? "done" : "not done"}>
      {checked ? "☑" : "☐"}
    </span>
  ),
  // The page loads nothing from other hosts.
  img: ({ alt, src }) => (
    <a className="link" href={typeof src === "string" ? src : ""} rel="noreferrer" target="_blank">
      {alt || "image"}
    </a>
  ),
};

/** The text of a report. HTML in it is not read as such; it is shown as it was written. */
export default function Text({ text }: { text: string }) {
  return (
    <div className="prose">
      <Markdown remarkPlugins={plugins} components={components}>
        {text}
      </Markdown>
    </div>
  );
}

/** A link within the page keeps it; one to another host opens beside it. */
function TextLink({ href, children }: { href: string; children: ReactNode }) {
  const isOwn = href.startsWith("/") && !href.startsWith("//");
  if (!isOwn) {
    return (
      <a className="link" href={href} rel="noreferrer" target="_blank">
        {children}
      </a>
    );
  }
  return (
    <a
      className="link"
      href={href}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        navigate(href);
      }}
    >
      {children}
    </a>
  );
}
