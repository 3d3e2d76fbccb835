import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { previewQuery } from "../../../api/artifacts";
import { type ImageStep, imagesByName, imagesQuery } from "../../../api/images";
import type { LoggedImage, Run } from "../../../api/types";
import { ErrorBox } from "../../../parts/ErrorBox";
import { formatNumber } from "../../../text/format";

/** The images that ranks have logged at steps, a card for each name; nothing if there are none. */
export function Images({ run }: { run: Run }) {
  const query = useQuery(imagesQuery(run.id));
  if (query.isError) return <ErrorBox error={query.error} />;
  if (!query.data || query.data.images.length === 0) return null;
  return (
    <div className="logged-images">
      {[...imagesByName(query.data.images)].map(([name, steps]) => (
        <ImagesOfName key={name} id={run.id} name={name} steps={steps} />
      ))}
      {query.data.more && (
        <p className="muted">
          These are the first {formatNumber(query.data.images.length)} images. The files below are
          all.
        </p>
      )}
    </div>
  );
}

/** The newest step at first; the slider goes to others. */
function ImagesOfName({ id, name, steps }: { id: string; name: string; steps: ImageStep[] }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const at = Math.min(chosen ?? steps.length - 1, steps.length - 1);
  const { step, images } = steps[at] ?? { step: 0, images: [] };
  return (
    <section className="card">
      <header>
        <h2 className="clip" title={name}>
          {name}
        </h2>
        <span className="grow" />
        {steps.length > 1 && (
          <input
            type="range"
            min={0}
            max={steps.length - 1}
            value={at}
            aria-label={`Step of ${name}`}
            onChange={(event) => setChosen(Number(event.target.value))}
          />
        )}
        <span className="muted">step {formatNumber(step)}</span>
      </header>
      <div className="logged-step">
        {images.map((image) => (
          <LoggedFigure key={`${image.rank} ${image.index}`} id={id} image={image} />
        ))}
      </div>
    </section>
  );
}

function LoggedFigure({ id, image }: { id: string; image: LoggedImage }) {
  const content = useQuery(previewQuery(id, image.path, "image"));
  const rank = `rank ${image.rank}`;
  const caption = image.caption ? `${image.caption}, ${rank}` : rank;
  if (content.isError) return <ErrorBox error={content.error} />;
  return (
    <figure>
      {content.data?.kind === "image" && (
        <img className="artifact-image" src={content.data.url} alt={caption} />
      )}
      <figcaption className="muted">{caption}</figcaption>
    </figure>
  );
}
