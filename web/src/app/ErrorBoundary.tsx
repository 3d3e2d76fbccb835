import { Component, type ReactNode } from "react";

interface State {
  error: Error | null;
  at: string;
}

/** An error of one view leaves the rest of the page. Another address tries again. */
export class ErrorBoundary extends Component<{ at: string; children: ReactNode }, State> {
  override state: State = { error: null, at: this.props.at };

  static getDerivedStateFromError(error: Error): Partial<State> {
    return { error };
  }

  static getDerivedStateFromProps(props: { at: string }, state: State): Partial<State> | null {
    return props.at === state.at ? null : { error: null, at: props.at };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div className="view">
        <div className="notice bad" role="alert">
          <strong>This view has failed</strong>
          <span className="grow">{error.message}</span>
          <button type="button" className="button" onClick={() => location.reload()}>
            Load the page again
          </button>
        </div>
      </div>
    );
  }
}
